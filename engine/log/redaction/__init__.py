"""Known secret values taken out of texts: the forms in which a value appears, and texts, events and messages without.

Pure. Must not know where secrets come from (`log.secrets`) nor where a text goes. Used by whatever lets text leave:
the log and the journal, the store's contents, imports and exports, the commands' output, and the adapter's one encoder.
"""

from __future__ import annotations

from .redactor import (
    HIDDEN,
    NO_SECRETS,
    RedactedStream,
    Redactor,
    Storable,
    marked_line,
    redact_event,
    redact_json,
    redact_struct,
    withheld,
    without_secrets,
    write_json,
)
from .spellings import SHORTEST

__all__ = [
    "HIDDEN",
    "NO_SECRETS",
    "SHORTEST",
    "RedactedStream",
    "Redactor",
    "Storable",
    "marked_line",
    "redact_event",
    "redact_json",
    "redact_struct",
    "withheld",
    "without_secrets",
    "write_json",
]
