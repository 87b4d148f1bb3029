"""All that is wrong with a file that people write by hand, in one message."""

from __future__ import annotations

from gradaudit.errors import InputError

# More of them are counted, and not told.
MOST_TOLD = 10
# Characters of one among several.
_LONGEST = 120


class Faults:
    """Faults of one file, gathered as they are found.

    Args:
        where: The file, for the message.

    Example:
        >>> faults = Faults("m.csv")
        >>> faults.add(InputError("m.csv, line 2: noise", "'much'", "a number"))
        >>> faults.add(InputError("m.csv, line 5", "no update", "the path of its file"))
        >>> try:
        ...     faults.refuse()
        ... except InputError as error:
        ...     print(error)  # doctest: +NORMALIZE_WHITESPACE
        m.csv: found 2 faults (line 2: noise: found 'much', expected a number | line 5: found no
        update, expected the path of its file), expected none
    """

    def __init__(self, where: str) -> None:
        self._where = where
        # Each once: a column that is unknown is so in every row of a list of objects.
        self._found: dict[str, InputError] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, fault: InputError) -> None:
        """Take note of a fault.

        Args:
            fault: With the file's name in front, if at all.
        """
        text = str(fault).removeprefix(self._where).lstrip(":, ")
        self._found.setdefault(text, fault)

    def refuse(self) -> None:
        """Refuse the file for all that was found, if anything was.

        Raises:
            InputError: The fault itself, or the first of several in one line.
        """
        if len(self._found) == 1:
            raise next(iter(self._found.values()))
        if self._found:
            told = [text[:_LONGEST] for text in list(self._found)[:MOST_TOLD]]
            rest = len(self._found) - len(told)
            more = [f"and {rest:,} more"] if rest else []
            found = f"{len(self._found):,} faults ({' | '.join(told + more)})"
            raise InputError(self._where, found, "none")
