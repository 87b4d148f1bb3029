"""From files to an `Update`: what a client sent, read without running anything in the file."""

from gradaudit.capture.load import Contains, load_update

__all__ = ["Contains", "load_update"]
