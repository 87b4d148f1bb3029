"""Where simulated clients take their records from: photos, digits, files, tables."""

from gradaudit.data.arrays import digits, npz_file, torchvision_set
from gradaudit.data.folder import image_folder
from gradaudit.data.patches import patches
from gradaudit.data.source import Batch, Source
from gradaudit.data.spec import load_source
from gradaudit.data.table import csv_table

__all__ = [
    "Batch",
    "Source",
    "csv_table",
    "digits",
    "image_folder",
    "load_source",
    "npz_file",
    "patches",
    "torchvision_set",
]
