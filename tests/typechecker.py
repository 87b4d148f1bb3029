"""How arguments and return values are checked while tests run."""

from __future__ import annotations

import io
from typing import IO

from beartype import BeartypeConf, FrozenDict, beartype

check = beartype(
    conf=BeartypeConf(
        # Whole numbers may stand for floats, as in PEP 484.
        is_pep484_tower=True,
        # beartype asks for attributes that io.StringIO does not have.
        hint_overrides=FrozenDict({IO[str]: io.TextIOBase}),
    )
)
