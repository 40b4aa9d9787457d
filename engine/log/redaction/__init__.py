"""Known secret values taken out of texts: the forms in which a value appears, and texts, events and messages without.

Pure. Must not know where secrets come from (`log.secrets`) nor where a text goes. Everything that lets text out uses
it: the log and the journal, the store's contents, imports and exports, the output of commands, and the adapter's
encoder.
"""

from __future__ import annotations

from ...core.text import HIDDEN
from .needles import SHORTEST, is_token
from .redactor import (
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

__all__ = [
    "HIDDEN",
    "NO_SECRETS",
    "SHORTEST",
    "RedactedStream",
    "Redactor",
    "Storable",
    "is_token",
    "marked_line",
    "redact_event",
    "redact_json",
    "redact_struct",
    "withheld",
    "without_secrets",
    "write_json",
]
