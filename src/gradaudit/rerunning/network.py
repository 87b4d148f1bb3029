"""The network of an earlier audit: as its result names it, or as it is given again."""

from __future__ import annotations

import itertools
import math
import re

from torch import nn

from gradaudit.errors import InputError
from gradaudit.models import parse_model
from gradaudit.models.spec import NAMED
from gradaudit.result.request import ModelRequest, Request
from gradaudit.session.request import structure_of
from gradaudit.update import Update

# Networks up to this size are made whatever the update's.
_SMALL = 1_000_000


def find_network(
    request: Request, given: nn.Module | str | None, update: Update
) -> nn.Module | str | None:
    """Find the network that an audit was given.

    Args:
        request: What the audit was asked.
        given: The network again, or the text that names it; needed where the request names none,
            or one whose code is not this package's.
        update: What was audited.

    Raises:
        InputError: It is needed and not given, or another one.
    """
    asked = request.model
    if asked is None:
        if given is not None:
            raise InputError("model", "a network", "none: the audit was given none", "leave it out")
        return None
    network = _named(asked, update) if given is None else given
    module = parse_model(network, seed=request.seed) if isinstance(network, str) else network
    if structure_of(module) != asked.structure_sha256:
        raise InputError(
            "model",
            "a network of another structure",
            f"the {asked.name[:80]!r} that the audit was given",
            "give it as model=...",
        )
    return network


def _named(asked: ModelRequest, update: Update) -> str:
    """The text that names a network, if making it runs none but this package's code."""
    text = asked.spec or ""
    family = re.split(r"[:?]", text)[0]
    if family not in NAMED and family != "mlp":
        named = f"{text[:80]!r}, whose code is not run unasked" if text else "one of own code"
        raise InputError("model", named, "the same network", "give it as model=...")
    # A network of this update has no layer wider, and no weight larger, than all weights together.
    total = sum(weight.numel() for weight in update.weights.values())
    sizes = [int(size) for size in re.findall(r"\d{1,18}", text)]
    if family == "mlp":
        sizes += [math.prod(pair) for pair in itertools.pairwise(sizes)]
    if max(sizes, default=0) > max(total, _SMALL):
        raise InputError("model", f"{text[:80]!r}", f"a network of {total:,} weights")
    return text
