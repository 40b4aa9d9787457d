"""The work "outline": a text that is too large to be outlined while a tick or a prompt waits is outlined beside.

It is what the log has of the file, or where that was not kept, what the file holds, if that is still the same. Like all
outlines it is made in a process that may die of it; that one may take its time here.
"""

from __future__ import annotations

import anyio.to_thread
from msgspec.structs import replace

from ...files.outline.indentation import IndentationOutliner
from ...files.outline.model import Outline, packed
from ...files.outlines import utf8
from ...files.revision import decoded, digest_of, is_glob
from ...log.redaction import Redactor
from ...log.statements import PAYLOAD_BYTES, Want
from .sources import Made, Sources


async def outline(want: Want, sources: Sources) -> Made | None:
    """The outline of the revision with the digest `want.detail["digest"]`; None where that is not to be had."""
    if is_glob(want.path):
        return None
    # Given up when the session is closed: a large text may take ten seconds.
    return await anyio.to_thread.run_sync(_made, want, sources, abandon_on_cancel=True)


def _made(want: Want, sources: Sources) -> Made | None:
    digest = str(want.detail.get("digest", ""))
    data = sources.kept(digest)
    if data is None:
        data = sources.disk.look(want.path, want.title, None).data
    if data is None or digest_of(data) != digest:
        return None
    revision = decoded(data)
    if revision.state != "text":
        return None
    outliner = IndentationOutliner() if sources.outliner is None else sources.outliner()
    made = outliner.outline(lambda: utf8(revision), digest=digest, path=want.path, patient=True)
    return Made(payload_kind="parse", data=packed(_without_secrets(made, sources.redactor), PAYLOAD_BYTES), mark=digest)


def _without_secrets(outline: Outline, redactor: Redactor) -> Outline:
    # Here, because a payload that holds one is dropped as a whole, and the view would wait for it in vain.
    redact = redactor.redact
    symbols = tuple(
        replace(
            symbol,
            name=redact(symbol.name),
            qualified=redact(symbol.qualified),
            signature=redact(symbol.signature),
            doc=redact(symbol.doc),
        )
        if redactor.holds(f"{symbol.qualified}\n{symbol.signature}\n{symbol.doc}")
        else symbol
        for symbol in outline.symbols
    )
    return replace(outline, symbols=symbols, doc=redact(outline.doc))
