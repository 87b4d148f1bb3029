"""From a user's module to the chain of its steps: a traced forward, walked from its end."""

from __future__ import annotations

import copy
import operator
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from gradaudit.chain.maps import AveragePool
from gradaudit.chain.steps import Chain, Skip, Step, Unsolvable
from gradaudit.chain.translate import Translator, append
from gradaudit.errors import InputError

ADDITIONS = (operator.add, operator.iadd, torch.add, "add", "add_")
# Records of the dry run: two, so that a forward that mixes records is noticed.
DRY_RECORDS = 2


def chain_of(model: nn.Module, input_shape: Sequence[int]) -> Chain:
    """Describe a network by the steps from its input to its output.

    The forward is traced with ``torch.fx`` and run once on zeros for the shapes; the model is not
    changed. Its mode counts: normalisation and dropout in training mode cannot be described. The
    chain refers to the model's own weights.

    Args:
        model: With one input and one output; modules and functional calls may be mixed.
        input_shape: Of a record, without the batch, such as ``(3, 32, 32)``.

    Returns:
        The chain; what no equation of ours describes is a step `Unsolvable`, with its reason.

    Raises:
        InputError: The forward cannot be traced, takes or gives several values, or refuses the
            shape.

    Example:
        >>> model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        >>> chain_of(model, (1, 8, 8)).unsolvable[0].name
        '2'
    """
    while isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        model = model.module
    shape = _checked(input_shape)
    graph = _traced(model)
    shapes = _shapes(model, graph, shape)
    given = [node for node in graph.nodes if node.op == "placeholder"]
    (result,) = (node.args[0] for node in graph.nodes if node.op == "output")
    if not isinstance(result, fx.Node) or result not in shapes:
        raise InputError("model", "several outputs", "a network with one output")
    steps = _Walker(Translator(model, shapes), shapes).between(result, given[0])
    return Chain(tuple(steps), shape, shapes[result][1:])


def _checked(input_shape: Sequence[int]) -> tuple[int, ...]:
    shape = tuple(int(size) for size in input_shape)
    if not shape or min(shape) < 1:
        raise InputError("input_shape", repr(shape), "a record's shape, such as (3, 32, 32)")
    return shape


def _traced(model: nn.Module) -> fx.Graph:
    try:
        graph = fx.Tracer().trace(model)
    except Exception as error:  # the user's forward may do anything with a stand-in
        said = " ".join(str(error).split())[:160]
        raise InputError(
            "model",
            f"a forward that cannot be traced ({type(error).__name__}: {said})",
            "a plain forward, without branches that depend on values",
            "write it as modules and calls in a fixed order, such as torch.nn.Sequential",
        ) from error
    inputs = sum(node.op == "placeholder" for node in graph.nodes)
    if inputs != 1:
        raise InputError("model", f"a forward with {inputs} inputs", "a network with one input")
    return graph


class _Shapes(fx.Interpreter):
    """Runs a graph and notes the shape of every tensor."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.found: dict[str, tuple[int, ...]] = {}

    def run_node(self, n: fx.Node) -> Any:
        """Run one node."""
        result = super().run_node(n)
        if isinstance(result, Tensor) and n.op != "get_attr":
            self.found[n.name] = tuple(result.shape)
        return result


def _shapes(
    model: nn.Module, graph: fx.Graph, input_shape: tuple[int, ...]
) -> dict[fx.Node, tuple[int, ...]]:
    """By node, the shape of its value for two records."""
    # A copy in evaluation mode: a dry run must not move statistics.
    dry = _Shapes(fx.GraphModule(copy.deepcopy(model).eval(), graph))
    tensors = [*model.parameters(), *model.buffers()]
    kind = next((t for t in tensors if t.is_floating_point()), torch.zeros(1))
    zeros = torch.zeros(DRY_RECORDS, *input_shape, dtype=kind.dtype, device=kind.device)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            # What torch has to say of the forward it says when it is run in earnest.
            warnings.simplefilter("ignore")
            dry.run(zeros)
    except Exception as error:  # whatever the forward raises, it does not take this shape
        # Behind its first line torch tells where in the traced graph it was.
        said = str(error).partition("\n")[0][:160]
        raise InputError(
            "input_shape", f"{input_shape}, which the model refuses ({said})", "its inputs' shape"
        ) from error
    return {node: dry.found[node.name] for node in graph.nodes if node.name in dry.found}


class _Walker:
    """Walks a graph from an end to a beginning, across the blocks where it parts."""

    def __init__(self, translator: Translator, shapes: Mapping[fx.Node, tuple[int, ...]]) -> None:
        self._translator, self._shapes = translator, shapes
        self._spines: dict[fx.Node, list[fx.Node]] = {}

    def between(self, end: fx.Node, start: fx.Node) -> list[Step]:
        """The steps that lead from the value of one node to that of another."""
        found: list[Step | AveragePool] = []
        for node in reversed(self._spine(end)[: self._spine(end).index(start)]):
            step = self._step(node)
            if step is not None:
                found.append(step)
        steps: list[Step] = []
        for step in found:
            append(steps, step)
        return steps

    def _step(self, node: fx.Node) -> Step | AveragePool | None:
        sources = self._sources(node)
        if len(sources) == 1:
            return self._translator.step(node, sources[0])
        fork = self._fork(sources)
        before, after = self._shapes[fork][1:], self._shapes[node][1:]
        plain = all(self._shapes[source] == self._shapes[node] for source in sources)
        if len(sources) == 2 and node.target in ADDITIONS and plain and not node.kwargs:
            ways = [tuple(self.between(source, fork)) for source in sources]
            ways.sort(key=len, reverse=True)
            return Skip(node.name, ways[0], ways[1], before, after)
        return Unsolvable(
            node.name,
            "several values come together there in another way than by an addition",
            "take a network whose branches are added",
            before,
            after,
        )

    def _sources(self, node: fx.Node) -> list[fx.Node]:
        """The tensors it is computed from; numbers and weights are none."""
        named = [n for n in _nodes(node.args) + _nodes(node.kwargs) if n in self._shapes]
        if not named:
            raise InputError(
                "model", f"a value {node.name!r} that no input enters", "a chain from its input"
            )
        return named

    def _spine(self, node: fx.Node) -> list[fx.Node]:
        """The nodes that everything between the input and this one passes through, backwards."""
        if node not in self._spines:
            spine, here = [node], node
            while here.op != "placeholder":
                sources = self._sources(here)
                here = sources[0] if len(sources) == 1 else self._fork(sources)
                spine.append(here)
            self._spines[node] = spine
        return self._spines[node]

    def _fork(self, nodes: Sequence[fx.Node]) -> fx.Node:
        """Where the ways to several nodes part."""
        common = set(self._spine(nodes[0])).intersection(*map(self._spine, nodes[1:]))
        return next(node for node in self._spine(nodes[0]) if node in common)


def _nodes(value: Any) -> list[fx.Node]:
    if isinstance(value, fx.Node):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [node for item in value for node in _nodes(item)]
    return []
