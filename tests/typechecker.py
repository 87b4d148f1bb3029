"""How arguments and return values are checked while tests run.

`jaxtyping.install_import_hook` puts a decorator on every function and dataclass of the package.
jaxtyping's own writes, compiles and binds anew for each closure, and checks arguments twice, which
took more than half of the time of a search. The one here compiles the checks of a function when it
is first called, once for all closures of the same lines.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import io
import typing
from collections.abc import Callable
from typing import IO, Any

import jaxtyping
from beartype import BeartypeConf, FrozenDict, beartype
from jaxtyping import jaxtyped

check = beartype(
    conf=BeartypeConf(
        # Whole numbers may stand for floats, as in PEP 484.
        is_pep484_tower=True,
        # beartype asks for attributes that io.StringIO does not have.
        hint_overrides=FrozenDict({IO[str]: io.TextIOBase}),
        violation_type=jaxtyping.TypeCheckError,
    )
)
Function = Callable[..., Any]
LABELS = "__module__", "__name__", "__qualname__"


def install(package: str) -> None:
    """Check all that is imported of a package from now on."""
    jaxtyping.jaxtyped = decorated
    jaxtyping.install_import_hook(package, "typechecker.check")


def decorated(item: Any = None, *, typechecker: object = None) -> Any:
    """Take the place of `jaxtyping.jaxtyped` in what the import hook writes."""
    if item is None:
        return decorated
    if not inspect.isclass(item):
        return checked(item)
    if dataclasses.is_dataclass(item) and not hasattr(item.__init__, "checks"):
        item.__init__ = checked(item.__init__)
    return item


def checked(function: Function) -> Function:
    """The function, with arguments and return value checked in one scope of axes' sizes."""
    checks = checks_of(function)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if jaxtyping.config.jaxtyping_disable:
            return function(*args, **kwargs)
        with jaxtyped("context"):
            try:
                checks.arguments(*args, **kwargs)
            except jaxtyping.TypeCheckError:
                jaxtyping.print_bindings()
                raise
            found = function(*args, **kwargs)
            try:
                return checks.outcome(found)
            except jaxtyping.TypeCheckError:
                jaxtyping.print_bindings()
                raise

    wrapper.checks = checks
    return wrapper


class Checks:
    """Of one function's annotations, compiled when they are first needed."""

    def __init__(self, function: Function) -> None:
        # Not the function, which would keep alive what a closure holds.
        self._written = inspect.signature(function)
        self._names = function.__globals__
        self._labels = {name: getattr(function, name) for name in LABELS}

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """With the annotations that are text looked up, as jaxtyping does."""
        parameters = [
            each.replace(annotation=resolved(each.annotation, self._names))
            for each in self._written.parameters.values()
        ]
        outcome = resolved(self._written.return_annotation, self._names)
        return self._written.replace(parameters=parameters, return_annotation=outcome)

    @functools.cached_property
    def arguments(self) -> Function:
        """Takes what the function takes, and does nothing but look at it."""
        kinds, words, names = inspect.Parameter, [], {}
        parameters = list(self.signature.parameters.values())
        for place, each in enumerate(parameters):
            before = parameters[place - 1].kind if place else None
            if before is kinds.POSITIONAL_ONLY and each.kind is not before:
                words.append("/")
            starred = (kinds.VAR_POSITIONAL, kinds.KEYWORD_ONLY)
            if each.kind is kinds.KEYWORD_ONLY and before not in starred:
                words.append("*")
            stars = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}.get(each.kind, "")
            names[f"default{place}"] = each.default
            given = "" if each.default is kinds.empty else f"=default{place}"
            words.append(f"{stars}{each.name}{given}")
        if parameters and parameters[-1].kind is kinds.POSITIONAL_ONLY:
            words.append("/")
        exec(f"def arguments({', '.join(words)}): pass", names)
        hints = {each.name: each.annotation for each in parameters}
        return self._checking(names["arguments"], hints)

    @functools.cached_property
    def outcome(self) -> Function:
        """Gives back what may be returned."""

        def outcome(value):
            return value

        return self._checking(outcome, {"return": self.signature.return_annotation})

    def _checking(self, stand_in: Function, hints: dict[str, Any]) -> Function:
        for name, label in self._labels.items():
            setattr(stand_in, name, label)
        stand_in.__annotations__ = {
            name: hint for name, hint in hints.items() if hint is not inspect.Parameter.empty
        }
        return check(stand_in)


_KNOWN: dict[object, Checks] = {}


def checks_of(function: Function) -> Checks:
    """Those of the same lines with the same annotations are the same."""
    annotations = tuple(function.__annotations__.items())
    key = function.__module__, function.__qualname__, function.__code__, annotations
    if key not in _KNOWN:
        _KNOWN[key] = Checks(function)
    return _KNOWN[key]


def resolved(annotation: Any, names: dict[str, Any]) -> Any:
    """What an annotation says; anything where its names exist for type checkers only."""

    def holder(value):
        pass

    holder.__annotations__ = {"value": annotation}
    try:
        return typing.get_type_hints(holder, names, include_extras=True)["value"]
    except Exception:
        return Any
