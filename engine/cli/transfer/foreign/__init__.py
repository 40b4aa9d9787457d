"""Conversations that other programs recorded, read as events of a session. Pure: bytes in, events and a report out.

One file per format, one row each in `formats.FORMATS`. Must not know stores or views: whether the result is well-formed
is checked by the View. Called by `rewindow import`.
"""

from __future__ import annotations

from .document import Report
from .formats import FORMATS, Format, read
from .writer import Imported, Writer

__all__ = ["FORMATS", "Format", "Imported", "Report", "Writer", "read"]
