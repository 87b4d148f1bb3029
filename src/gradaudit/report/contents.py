"""What a card shows of a record: an image, a table's row, or a plain vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64, Shaped

from gradaudit.preprocessing import Preprocessing
from gradaudit.report.images import (
    DisplayImages,
    display_images,
    png_uri,
    redact,
    rounded_row,
    significant,
)
from gradaudit.report.originals import Originals
from gradaudit.report.text import count, number, plain

MAX_ROWS = 60


@dataclass(frozen=True)
class CardImage:
    """One image of a card: its ``data:`` URI, what it is, and the same for who cannot see it."""

    uri: str
    caption: str
    alternative: str


@dataclass(frozen=True)
class Row:
    """One value of a record: its name, the recovered value and the original one, if known."""

    name: str
    recovered: str
    original: str = ""


@dataclass(frozen=True, eq=False)
class Batch:
    """What the cards are made of."""

    records: Float64[np.ndarray, "b n"]
    originals: Originals | None
    scale_identified: bool
    show_records: bool

    def original(self, index: int) -> int | None:
        """Index of the original of a record."""
        return None if self.originals is None else self.originals.index(index)


@dataclass(eq=False)
class Content:
    """What one kind of record shows; every function takes the record's index."""

    kind: str
    comparable: Callable[[int], Shaped[np.ndarray, " *shape"]]
    images: Callable[[int], tuple[CardImage, ...]] = lambda index: ()
    rows: Callable[[int], tuple[Row, ...]] = lambda index: ()
    card_notes: Callable[[int], tuple[str, ...]] = lambda index: ()
    mark: Callable[[int], str | None] = lambda index: None
    columns: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)

    def keyable(self, salt: str | None) -> bool:
        """Whether a fingerprint would not give the record away: tables can be guessed."""
        return self.kind == "images" or salt is not None


def content_of(batch: Batch, preprocessing: Preprocessing | None) -> Content:
    """Choose what to show: what the preprocessing says, if it is of records of this size.

    Example:
        >>> content_of(Batch(np.zeros((1, 3)), None, True, False), None).columns
        ('3 numbers a record',)
    """
    width = batch.records.shape[1]
    if preprocessing is None or preprocessing.features is None:
        return _vectors(batch)
    if preprocessing.features != width:
        content = _vectors(batch)
        content.notes.append(
            f"The given preprocessing is of records with {preprocessing.features:,} values, but "
            f"these have {width:,}: they are the inputs of an inner layer, or the preprocessing "
            "belongs to another model. They are shown as plain vectors."
        )
        return content
    return (
        _images(batch, preprocessing) if preprocessing.image_shape else _rows(batch, preprocessing)
    )


def _images(batch: Batch, preprocessing: Preprocessing) -> Content:
    shown = display_images(batch.records, preprocessing, scale_identified=batch.scale_identified)
    real = None
    if batch.originals is not None:
        real = display_images(batch.originals.inputs, preprocessing)

    def picture(source: DisplayImages, place: int, caption: str, record: int) -> CardImage:
        pixels = source.pixels[place]
        height, width = pixels.shape[:2]
        what = f"{caption.capitalize()} image of record {record + 1}, {width} by {height} pixels"
        if not batch.show_records:
            pixels = redact(pixels)
            what += f", redacted to {pixels.shape[1]} by {pixels.shape[0]} colour cells"
        return CardImage(png_uri(pixels), caption, f"{what}.")

    def images(index: int) -> tuple[CardImage, ...]:
        found = (picture(shown, index, "recovered", index),)
        original = batch.original(index)
        if real is None or original is None:
            return found
        return (*found, picture(real, original, "original", index))

    def card_notes(index: int) -> tuple[str, ...]:
        notes = []
        if shown.not_finite[index]:
            notes.append(f"{count(shown.not_finite[index], 'value')} not finite, shown grey.")
        if shown.clipped[index]:
            share = number(100 * shown.clipped[index], 2)
            notes.append(f"{share} % of the values lie beyond black or white and are clipped.")
        return tuple(notes)

    return Content(
        "images",
        lambda index: shown.pixels[index],
        images=images,
        card_notes=card_notes,
        notes=[shown.note] if shown.note else [],
    )


def _rows(batch: Batch, preprocessing: Preprocessing) -> Content:
    columns = preprocessing.columns[:MAX_ROWS]
    found = preprocessing.to_rows(batch.records)
    real = None
    if batch.originals is not None:
        real = preprocessing.to_rows(batch.originals.inputs)
    notes = []
    if not batch.scale_identified:
        notes.append("Categories do not depend on the unknown factor; numbers do and are left out.")
    if len(preprocessing.columns) > MAX_ROWS:
        notes.append(f"The first {MAX_ROWS} of {len(preprocessing.columns):,} columns are shown.")

    def rows(index: int) -> tuple[Row, ...]:
        if not batch.show_records:
            return ()
        original = batch.original(index)
        theirs = None if real is None or original is None else real[original]
        cards = []
        for column in columns:
            known = bool(column.categories) or batch.scale_identified
            ours = _value(found[index][column.name]) if known else "unknown scale"
            cards.append(
                Row(plain(column.name, 60), ours, _value(theirs[column.name]) if theirs else "")
            )
        return tuple(cards)

    return Content(
        "rows",
        lambda index: rounded_row(found[index]),
        rows=rows,
        columns=tuple(plain(column.name, 60) for column in columns),
        notes=notes,
    )


def _value(item: float | str) -> str:
    return plain(item, 60) if isinstance(item, str) else number(item, 5)


def _vectors(batch: Batch) -> Content:
    names = ("Smallest value", "Largest value", "Mean", "Standard deviation")

    def summary(vector: Float64[np.ndarray, " n"]) -> list[str]:
        finite = vector[np.isfinite(vector)]
        if not finite.size:
            return ["not finite"] * len(names)
        parts = (finite.min(), finite.max(), finite.mean(), finite.std())
        return [number(float(part), 4) for part in parts]

    def rows(index: int) -> tuple[Row, ...]:
        if not batch.show_records:
            return ()
        original = batch.original(index)
        real = [""] * len(names)
        if batch.originals is not None and original is not None:
            real = summary(batch.originals.inputs[original])
        return tuple(map(Row, names, summary(batch.records[index]), real))

    def card_notes(index: int) -> tuple[str, ...]:
        bad = int((~np.isfinite(batch.records[index])).sum())
        return (f"{count(bad, 'value')} not finite.",) if bad else ()

    return Content(
        "vectors",
        lambda index: significant(batch.records[index]),
        rows=rows,
        card_notes=card_notes,
        columns=(f"{count(batch.records.shape[1], 'number')} a record",),
    )
