"""A Flower strategy that audits what the server receives from each client."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from gradaudit.errors import InputError
from gradaudit.flower.auditor import Auditor
from gradaudit.flower.captures import capture, prepare_folder
from gradaudit.flower.messages import keep_arrays, num_examples
from gradaudit.result import AuditResult

log = logging.getLogger(__name__)

# What the wrapped strategy does in a round of training, and this one instead.
_ROUND = ("configure_train", "aggregate_train")


@dataclass(frozen=True, eq=False)
class ClientAudit:
    """What came of one client's reply in one round.

    Attributes:
        server_round: Flower's round, from 1.
        node_id: Flower's identifier of the client's node.
        num_examples: How many records the client says it trained on, or None.
        result: The audit's; its records are personal data.
        capture: The file that the update was saved to, or None.
        dropped: Whether the reply was kept from the wrapped strategy.
    """

    server_round: int
    node_id: int
    num_examples: int | None
    result: AuditResult
    capture: Path | None
    dropped: bool


class AuditingStrategy(Strategy):
    """Wraps any of Flower's strategies and audits every client's reply before it is aggregated.

    The update of a client is its reply's arrays minus those it was sent. The wrapped strategy gets
    the replies as they came, and everything else is its own. Each round's metrics gain
    ``audited-clients``, ``leaking-clients`` (a leak is proven) and ``recovered-records``.

    The round waits for its audits: up to the budget's time for each client, one after the other.

    Args:
        strategy: The strategy to wrap, such as ``FedAvg()``; also one that wraps another.
        on_leak: ``"record"``: a proven leak is recorded. ``"drop"``: such a reply is also kept
            from the wrapped strategy, which does not make the leak undone.
        capture_dir: A new or empty folder to save every update to, for an audit later with
            ``gradaudit audit``; None saves nothing.
        settings: Of the `Auditor`: ``model``, ``loss``, ``step``, ``attack``, ``budget``, ...

    Attributes:
        strategy: The wrapped strategy.
        results: A `ClientAudit` a client and round, in order.

    Raises:
        InputError: An argument cannot be used.

    Example:
        >>> from flwr.serverapp.strategy import FedAvg
        >>> from gradaudit.budget import Budget
        >>> strategy = AuditingStrategy(FedAvg(), budget=Budget(seconds=10))
        >>> strategy.results
        []
    """

    def __init__(
        self,
        strategy: Strategy,
        *,
        on_leak: Literal["record", "drop"] = "record",
        capture_dir: str | Path | None = None,
        **settings: Any,
    ) -> None:
        if on_leak not in ("record", "drop"):
            raise InputError("on_leak", repr(on_leak), "'record' or 'drop'")
        self.strategy = strategy
        self.results: list[ClientAudit] = []
        self._auditor = Auditor(**settings)
        self._drops = on_leak == "drop"
        self._folder = None if capture_dir is None else prepare_folder(capture_dir)
        self._wrapped: dict[str, Callable[..., Any]] = {n: getattr(strategy, n) for n in _ROUND}
        self._sent: dict[int, RecordDict] = {}

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The wrapped strategy's messages; what each node is sent is remembered."""
        messages = list(self._wrapped["configure_train"](server_round, arrays, config, grid))
        # Messages to many nodes usually share their content.
        kept = {id(message.content): keep_arrays(message.content) for message in messages}
        self._sent = {m.metadata.dst_node_id: kept[id(m.content)] for m in messages}
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Audit the replies, and hand them on to the wrapped strategy."""
        passed = []
        audits = []
        for reply in replies:
            audited = None if reply.has_error() else self._audit(server_round, reply)
            if audited is not None:
                audits.append(audited)
            if audited is None or not audited.dropped:
                passed.append(reply)
        self.results += audits
        arrays, metrics = self._wrapped["aggregate_train"](server_round, passed)
        return arrays, MetricRecord({**(metrics or {}), **_counts(audits)})

    def _audit(self, server_round: int, reply: Message) -> ClientAudit:
        node_id = reply.metadata.src_node_id
        examples = num_examples(reply.content)
        examined = self._auditor.examine(self._sent.get(node_id, RecordDict()), reply.content)
        result, leaks = examined.result, examined.result.status.leak_proven
        level = logging.WARNING if leaks or examined.error else logging.INFO
        log.log(level, "Round %d, node %d: %s", server_round, node_id, result.summary())
        path = None
        if self._folder is not None and examined.update is not None:
            path = capture(examined.update, self._folder, server_round, node_id, examples)
        return ClientAudit(server_round, node_id, examples, result, path, self._drops and leaks)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The wrapped strategy's."""
        return self.strategy.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """The wrapped strategy's."""
        return self.strategy.aggregate_evaluate(server_round, replies)

    def summary(self) -> None:
        """The wrapped strategy's."""
        self.strategy.summary()

    def start(self, *args: Any, **kwargs: Any) -> Result:
        """The wrapped strategy's own loop, which may not be Flower's, with this one's rounds."""
        for name in _ROUND:
            setattr(self.strategy, name, getattr(self, name))
        try:
            return self.strategy.start(*args, **kwargs)
        finally:
            for name in _ROUND:
                delattr(self.strategy, name)

    def __getattr__(self, name: str) -> Any:
        if name == "strategy":
            raise AttributeError(name)
        return getattr(self.strategy, name)


def _counts(audits: list[ClientAudit]) -> dict[str, int]:
    return {
        "audited-clients": len(audits),
        "leaking-clients": sum(audit.result.status.leak_proven for audit in audits),
        "recovered-records": sum(audit.result.records_recovered for audit in audits),
    }
