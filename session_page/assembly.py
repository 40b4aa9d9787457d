"""The page as HTML: the bundle's script and style around nothing, or around the data of one session.

No text of a session is ever put into HTML. A file has its data as base64 of compressed JSON, in an element that
browsers do not run, so there is nothing to escape. The served page fetches its data. In both a Content-Security-Policy
admits the bundle alone, by its hash or its address, and `require-trusted-types-for` keeps the bundle from making HTML
of texts.

Pure, but for reading the bundle. Called by `file` and `app`.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from pathlib import Path
from typing import Final

from msgspec import Struct

from engine.core.errors import InvalidRequestError

BUNDLE: Final = Path(__file__).with_name("bundle")
"""Where the front end puts its two files."""
SCRIPT, STYLE = "page.js", "page.css"
NO_BUNDLE: Final = "this installation has no {name}, which shows pages; install Rewindow again"
BAD_BUNDLE: Final = "{name} contains {text!r}, which would end its element in a file; build it again"
DATA_ID: Final = "session-data"
_POLICY: Final = (
    "default-src 'none'; script-src {script}; style-src {style}; img-src {images}data: blob:; font-src data:; "
    "{connect}base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
SERVED_POLICY: Final = (
    _POLICY.format(script="'self'", style="'self'", images="'self' ", connect="connect-src 'self'; ")
    + "; frame-ancestors 'none'"
)
"""The header of the served page."""
_HEAD: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
{policy}<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>Rewindow</title>
{style}
</head>
<body>
<div id="page"></div>
{data}{script}
</body>
</html>
"""
SHELL: Final = _HEAD.format(
    policy="",
    style=f'<link rel="stylesheet" href="/{STYLE}">',
    data="",
    script=f'<script src="/{SCRIPT}"></script>',
)
"""The served page. It has no data and no secret, so it needs no token."""
_ENDS: Final = {SCRIPT: ("</script", "<!--"), STYLE: ("</style", "<!--")}


class Bundle(Struct, frozen=True):
    """The front end's script and style."""

    script: str
    style: str


def bundle(place: Path | None = None) -> Bundle:
    """Read the bundle.

    Raises:
        InvalidRequestError: a file of it is missing, or could not be part of a file.
    """
    texts: dict[str, str] = {}
    for name, ends in _ENDS.items():
        try:
            texts[name] = ((place or BUNDLE) / name).read_text("utf-8")
        except OSError:
            raise InvalidRequestError(NO_BUNDLE.format(name=name)) from None
        for end in ends:
            if end in texts[name].lower():
                raise InvalidRequestError(BAD_BUNDLE.format(name=name, text=end))
    return Bundle(texts[SCRIPT], texts[STYLE])


def file_page(parts: Bundle, data: bytes) -> bytes:
    """Return the page of one session as a file.

    Args:
        data: compressed by `packed`.
    """
    policy = _POLICY.format(script=_hash(parts.script), style=_hash(parts.style), images="", connect="")
    # Base64 has no character that HTML or a format string gives a meaning.
    encoded = base64.b64encode(data).decode("ascii")
    page = _HEAD.format(
        policy=f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
        style=f"<style>{parts.style}</style>",
        data=f'<script type="application/octet-stream" id="{DATA_ID}">{encoded}</script>\n',
        script=f"<script>{parts.script}</script>",
    )
    return page.encode()


def packed(data: bytes) -> bytes:
    """Compress data for a file. The same data gives the same bytes."""
    return gzip.compress(data, 9, mtime=0)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
