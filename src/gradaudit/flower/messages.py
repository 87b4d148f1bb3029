"""What is in a Flower message: its arrays, the number of examples, a mask of secure aggregation."""

from __future__ import annotations

from flwr.app import ArrayRecord, Message, RecordDict

from gradaudit.errors import InputError

# Flower's own strategies weight clients by the first of these; the older interface by the second.
NUM_EXAMPLES = ("num-examples", "num_examples")

# Under this key, SecAgg and SecAgg+ reply with integers that only the sum over clients unmasks.
MASKED_PARAMETERS = "masked_params"


def is_training(message: Message) -> bool:
    """Whether a message asks for training or replies to that (``"train"``, ``"train.ACTION"``)."""
    return message.metadata.message_type.partition(".")[0] == "train"


def keep_arrays(content: RecordDict) -> RecordDict:
    """A copy of a message's array records, which clients may empty as they read them."""
    return RecordDict({key: ArrayRecord(dict(each)) for key, each in content.array_records.items()})


def find_arrays(sent: RecordDict, reply: RecordDict, key: str | None) -> tuple[str, str]:
    """The keys of the model's record in what was sent and in what came back.

    Args:
        sent: Content of the message to the client.
        reply: Content of its reply.
        key: The record's key in both, or None if each has one record of arrays only.

    Raises:
        InputError: It cannot be told which record is the model.

    Example:
        >>> arrays = RecordDict({"arrays": ArrayRecord()})
        >>> find_arrays(arrays, RecordDict({"new": ArrayRecord()}), None)
        ('arrays', 'new')
    """
    ours = _one("the message sent", sent, key)
    return ours, _one("the reply", reply, key)


def num_examples(content: RecordDict) -> int | None:
    """How many records a client says that it trained on, or None.

    Example:
        >>> from flwr.app import MetricRecord
        >>> num_examples(RecordDict({"metrics": MetricRecord({"num-examples": 8})}))
        8
    """
    for metrics in content.metric_records.values():
        for name in NUM_EXAMPLES:
            value = metrics.get(name)
            if isinstance(value, int | float) and float(value).is_integer() and value >= 1:
                return int(value)
    return None


def is_masked(content: RecordDict) -> bool:
    """Whether a reply is a client's share of a secure aggregation (SecAgg, SecAgg+)."""
    return any(MASKED_PARAMETERS in config for config in content.config_records.values())


def _one(where: str, content: RecordDict, key: str | None) -> str:
    keys = list(content.array_records)
    if key is not None and key in keys:
        return key
    if key is None and len(keys) == 1:
        return keys[0]
    found = "records of arrays " + ", ".join(map(repr, keys)) if keys else "no record of arrays"
    expected = "exactly one" if key is None else repr(key)
    raise InputError(where, found, expected, "pass arrays_key= if there are several")
