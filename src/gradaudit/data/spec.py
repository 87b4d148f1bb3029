"""A source named in text, as on a command line."""

from __future__ import annotations

import os

from gradaudit.data.arrays import digits, npz_file, torchvision_set
from gradaudit.data.folder import image_folder
from gradaudit.data.images import check_normalisation
from gradaudit.data.patches import MIN_CONTRAST, patches
from gradaudit.data.source import Source
from gradaudit.data.table import csv_table
from gradaudit.errors import InputError
from gradaudit.options import Options, split_options


def load_source(text: str) -> Source:
    """Open the source that a text names: ``NAME?key=value&key=value``.

    - ``patches``: natural patches (options ``size``, ``split``, ``channels``)
    - ``digits``: handwritten digits
    - ``torchvision:NAME``: a downloaded set (``root``, ``split``, ``limit``)
    - a folder: images in subfolders (``size``, ``channels``)
    - ``FILE.npz``: arrays
    - ``FILE.csv`` or ``FILE.csv.gz``: a table (``label_column``, ``drop``, ``categorical``,
      ``delimiter``)

    All take ``normalise``: ``standard`` (the default, or ``true``) or ``unit`` (or ``false``).

    Args:
        text: The text.

    Raises:
        InputError: The text names no source, or it cannot be read.
        MissingExtraError: It needs a package that is not installed.

    Example:
        >>> load_source("patches?size=8&normalise=false").preprocessing.features
        192
    """
    name, options = split_options("data", text)
    normalise = check_normalisation(options.text("normalise", "standard"))
    return _open(text, name, options, normalise)


def _open(text: str, name: str, options: Options, normalise: str) -> Source:
    if name == "patches":
        size, channels = options.integer("size", 32), options.integer("channels", 3)
        split, contrast = options.text("split", "all"), options.number("contrast")
        options.finish()
        return patches(
            size,
            split=split,
            channels=channels,
            contrast=MIN_CONTRAST if contrast is None else contrast,
            normalise=normalise,
        )
    if name == "digits":
        options.finish()
        return digits(normalise=normalise)
    if name.startswith("torchvision:"):
        root, split = options.text("root", "data"), options.text("split", "train")
        limit = options.integer("limit", 10_000)
        options.finish()
        return torchvision_set(
            name.partition(":")[2], root=root, split=split, limit=limit, normalise=normalise
        )
    if name.endswith(".npz"):
        options.finish()
        return npz_file(name, normalise=normalise)
    if name.endswith((".csv", ".csv.gz")):
        label_column, delimiter = options.text("label_column", ""), options.text("delimiter", ",")
        drop, categorical = options.names("drop"), options.names("categorical")
        options.finish()
        return csv_table(
            name,
            label_column=label_column or None,
            drop=drop,
            categorical=categorical,
            delimiter="\t" if delimiter == "tab" else delimiter,
            normalise=normalise,
        )
    # Path.is_dir() raises an error at a name that no file can have.
    if os.path.isdir(name):
        size, channels = options.integer("size", 32), options.integer("channels", 3)
        options.finish()
        return image_folder(name, size=size, channels=channels, normalise=normalise)
    raise InputError(
        "data",
        repr(text),
        "patches, digits, torchvision:NAME, a folder of images, or a .npz, .csv or .csv.gz file",
        "check the path" if "/" in name or "." in name else "",
    )
