"""A reply with a defence applied to the change it makes."""

from __future__ import annotations

import torch
from flwr.app import Array, ArrayRecord, RecordDict

from gradaudit.defenses import Pipeline
from gradaudit.errors import InputError
from gradaudit.flower.arrays import tensors_of
from gradaudit.flower.auditor import Auditor
from gradaudit.flower.messages import find_arrays
from gradaudit.flower.reading import RECEIVED, SENT
from gradaudit.update import is_buffer


def defend(
    auditor: Auditor, sent: RecordDict, reply: RecordDict, defenses: Pipeline
) -> tuple[RecordDict, float | None]:
    """Apply defences to what a reply says has changed.

    Floating-point arrays other than BatchNorm's buffers take part, under the names that the reply
    has for them; the rest, and every other record, stays as it is. What is drawn cannot be
    repeated: whoever could would subtract it.

    Args:
        auditor: Knows what replies hold, and what noise is in them already.
        sent: Content of the message to the client.
        reply: Content of its reply.
        defenses: Applied to the difference from the arrays sent, if the reply holds weights
            after, else to the arrays themselves.

    Returns:
        A new content, whose arrays keep their names, shapes and types; and the standard deviation
        of the noise in the change now, if it is known.

    Raises:
        InputError: The reply's names are not those sent.
    """
    key, reply_key = find_arrays(sent, reply, auditor.arrays_key)
    after = tensors_of(RECEIVED, reply.array_records[reply_key])
    change = {n: t for n, t in after.items() if t.is_floating_point() and not is_buffer(n)}
    before = {name: torch.zeros_like(t) for name, t in change.items()}
    if auditor.contains == "weights_after":
        weights = tensors_of(SENT, sent.array_records[key])
        if weights.keys() != after.keys():
            raise InputError(
                RECEIVED,
                "names that are not those of the arrays sent",
                "the same names, so that a defence can be applied",
                "return the arrays as they were named",
            )
        before = {name: weights[name] for name in change}
        change = {name: t - before[name] for name, t in change.items()}
    generator = torch.Generator()
    generator.seed()
    made, noise = defenses.send(change, auditor.noise or 0.0, generator)
    after |= {name: (before[name] + t).to(after[name].dtype) for name, t in made.items()}
    arrays = ArrayRecord({name: Array(tensor.numpy()) for name, tensor in after.items()})
    return RecordDict({**reply, reply_key: arrays}), noise
