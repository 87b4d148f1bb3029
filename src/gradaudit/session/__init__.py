"""One audit under way: what it works on, the attacks it tries, the best that came of them."""

from gradaudit.session.request import Network, note_request
from gradaudit.session.session import Session
from gradaudit.session.setup import NetworkMaker, Setup

__all__ = ["Network", "NetworkMaker", "Session", "Setup", "note_request"]
