"""A Flower mod that audits what a client is about to send, and stops a proven leak."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from flwr.app import ConfigRecord, ConfigRecordValues, Context, Error, Message, RecordDict

from gradaudit.defenses import Pipeline, SentDefense
from gradaudit.errors import InputError
from gradaudit.flower.auditor import Auditor, Examination
from gradaudit.flower.defending import defend
from gradaudit.flower.messages import is_training, keep_arrays

log = logging.getLogger(__name__)

# Flower's code for replies that one of its own mods holds back (MOD_FAILED_PRECONDITION).
MOD_FAILED_PRECONDITION = 6

# The gate's own record in replies that it lets pass.
RECORD = "gradaudit"

ClientCall = Callable[[Message, Context], Message]
Mod = Callable[[Message, Context, ClientCall], Message]


def leakage_gate_mod(
    *, on_leak: Literal["refuse"] | Sequence[SentDefense] = "refuse", **settings: Any
) -> Mod:
    """Make a mod for ``ClientApp(mods=[...])`` that lets no proven leak out.

    Replies to training are audited on the client as a server would. One that is proven to leak is
    refused: the reply becomes an error, which strategies leave out of the average and whose reason
    they log; no array leaves the client. (A reply without arrays, or with those received, would
    end the round in an error or count as a client that trained.) So is one that cannot be audited
    because of a mistake in the settings: a gate that cannot see does not open.

    With defences, these are applied to the change instead, and the defended reply is audited in its
    turn: it is sent if no leak is proven any more. That a reply passes does not show that nothing
    can be read out of it. What passes carries a ``ConfigRecord`` named ``"gradaudit"`` with
    ``status``, ``summary`` and ``defended``.

    The first mod of a list is the outermost. Put the gate first to judge what is really sent, after
    the clipping or noise of other mods. With secure aggregation put it behind ``secaggplus_mod``,
    where it sees the update before the mask.

    Args:
        on_leak: ``"refuse"``, or defences on what is sent, from `gradaudit.defenses`.
        settings: Of the `Auditor`: ``model``, ``loss``, ``step``, ``attack``, ``budget``, ...

    Raises:
        InputError: ``on_leak`` is neither, or a defence on single records; or a setting cannot be
            used.

    Example:
        >>> from flwr.clientapp import ClientApp
        >>> from gradaudit.budget import Budget
        >>> app = ClientApp(mods=[leakage_gate_mod(budget=Budget(seconds=20))])
    """
    if isinstance(on_leak, str) and on_leak != "refuse":
        raise InputError("on_leak", repr(on_leak), "'refuse', or defences")
    defenses = None if isinstance(on_leak, str) else _sent_only(on_leak)
    auditor = Auditor(**settings)

    def mod(message: Message, context: Context, call_next: ClientCall) -> Message:
        sent = keep_arrays(message.content)
        reply = call_next(message, context)
        if reply.has_error() or not is_training(message):
            return reply
        content, examined = reply.content, auditor.examine(sent, reply.content)
        is_defended = defenses is not None and examined.result.status.leak_proven
        if defenses is not None and is_defended:
            try:
                content, noise = defend(auditor, sent, content, defenses)
            except InputError as error:
                return _refusal(f"The defence failed: {error}.", message)
            # Whoever reads the reply may know how the client defends itself.
            examined = replace(auditor, noise=noise or None).examine(sent, content)
        if examined.result.status.leak_proven or examined.error is not None:
            still = "The defence did not help." if is_defended else examined.result.remedy
            return _refusal(f"{examined.result.summary()} {still}", message)
        reply.content = _with_note(content, examined, is_defended)
        return reply

    return mod


def _sent_only(defenses: Sequence[SentDefense]) -> Pipeline:
    pipeline = Pipeline.of(defenses)
    others = (*pipeline.on_representations, *pipeline.on_records)
    if others:
        raise InputError(
            "on_leak",
            f"{type(others[0]).__name__}, which works on single records' gradients",
            "defences on what is sent: a gate sees nothing else",
            "train with it, as with Opacus",
        )
    return pipeline


def _refusal(why: str, message: Message) -> Message:
    """An error in the reply's place; its text holds no record."""
    reason = f"gradaudit kept this update back. {why}".strip()
    log.warning(reason)
    return Message(Error(MOD_FAILED_PRECONDITION, reason), reply_to=message)


def _with_note(content: RecordDict, examined: Examination, is_defended: bool) -> RecordDict:
    note: dict[str, ConfigRecordValues] = {
        "status": examined.result.status.value,
        "summary": examined.result.summary(),
        "defended": is_defended,
    }
    return RecordDict({**content, RECORD: ConfigRecord(note)})
