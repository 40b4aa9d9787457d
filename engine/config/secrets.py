"""What must not be seen: which variables statements get, and known secret values taken out of texts.

Owns the names that look secret. Must not know sessions. Used by the composition, logs, the
journal, imports and `doctor`.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Final

from ..events import Event
from ..events.codec import decode, encode

_ALLOWED: Final = frozenset((
    "PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR", "TMPDIR", "USER", "LOGNAME", "SHELL",
    "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "DISPLAY", "WAYLAND_DISPLAY",
    "EDITOR", "PAGER", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS",
))  # fmt: skip
_ALLOWED_PREFIXES: Final = ("LC_", "XDG_")
_SECRET_NAME: Final = re.compile(
    r"(?i)API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|(^|_)(AUTH|PAT)(_|$)"
)
_CREDENTIALS_IN_URL: Final = re.compile(r"://[^/\s@]*@")
_SHORTEST_SECRET: Final = 8
"""Characters; shorter values occur in ordinary text too often to be replaced."""
HIDDEN: Final = "***"


def allowed_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that statements may see: an allow-list, and never one whose name or value looks like a secret."""
    return {
        name: value
        for name, value in environ.items()
        if (name in _ALLOWED or name.startswith(_ALLOWED_PREFIXES))
        and not _SECRET_NAME.search(name)
        and not _CREDENTIALS_IN_URL.search(value)
    }


class Redactor:
    """Replaces known secret values in texts. Longer ones first, so that none is left in part."""

    def __init__(self, values: Iterable[str]) -> None:
        long = {value for value in values if len(value) >= _SHORTEST_SECRET}
        # As they are, and as they are written in JSON and in a repr.
        known = sorted({form for value in long for form in _forms(value)}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, known))) if known else None
        self._known = sorted(known)
        self._longest = len(known[0]) if known else 0

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Redactor:
        """For the values of variables whose names look secret."""
        return cls(value for name, value in environ.items() if _SECRET_NAME.search(name))

    def redact(self, text: str) -> str:
        """The text with every known value replaced by `***`."""
        return self._pattern.sub(HIDDEN, text) if self._pattern else text

    def redact_event(self, event: Event) -> Event:
        """The event with every known value replaced in all its texts; the event itself where there is none."""
        data = encode(event).decode()
        clean = self.redact(data)
        return event if clean == data else decode(clean)

    def redact_piece(self, text: str) -> tuple[str, str]:
        """The same for a text that goes on: what can be shown of it, and the rest, which may be the start of a value.

        The rest, usually empty and always shorter than a value, belongs in front of what comes next.
        """
        if self._pattern is None:
            return text, ""
        shown: list[str] = []
        start = 0
        while True:
            found = self._pattern.search(text, start)
            kept = self._open_value(text, start, found.start() if found else len(text) - 1)
            if found is None or kept is not None:
                end = len(text) if kept is None else kept
                return "".join([*shown, text[start:end]]), text[end:]
            shown += text[start : found.start()], HIDDEN
            start = found.end()

    def _open_value(self, text: str, start: int, last: int) -> int | None:
        """The first position from `start` to `last` from which the text is a value's beginning and not all of it."""
        for position in range(max(start, len(text) - self._longest + 1), last + 1):
            beginning = text[position:]
            # The values that begin with it, and are longer, come right after it in the order of texts.
            after = bisect_right(self._known, beginning)
            if after < len(self._known) and self._known[after].startswith(beginning):
                return position
        return None


def _forms(value: str) -> tuple[str, ...]:
    return value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]
