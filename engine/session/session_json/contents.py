"""The contents of a session's document: long texts of the log, and what its store has of files, prompts and pictures.

Texts are sent without secrets. Of other bytes only pictures are sent, because a file that is not text cannot be shown.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Final

from ...core.errors import StoreError
from ...core.ids import BlobDigest
from ...log.redaction import Redactor
from .document import SessionDocument
from .shapes import Content

MISSING: Final = "the store no longer has the content"
BINARY: Final = "the content is not text"
SECRET: Final = "the content contains a secret"  # noqa: S105


class Contents:
    """Reads contents by their digests, without secrets.

    Args:
        blob_get: `Store.blob_get`.
    """

    def __init__(self, blob_get: Callable[[BlobDigest], bytes], hidden: Redactor) -> None:
        self._blob_get = blob_get
        self._hidden = hidden

    def text(self, digest: BlobDigest) -> str | None:
        """Return a text that the log names; None if the store cannot return it. For `SessionDocument`."""
        try:
            return self._hidden.redact(self._blob_get(digest).decode("utf-8", "replace"))
        except (KeyError, StoreError):
            return None

    def of(self, document: SessionDocument, digest: str) -> Content | None:
        """Return the content of that digest; None if no entry of the document that was built names it."""
        if digest in document.texts.long:
            return Content(text=document.text(digest))
        media_type = document.texts.named.get(digest)
        return None if media_type is None else self._named(BlobDigest(digest), media_type)

    def all(self, document: SessionDocument) -> Iterator[tuple[str, Content]]:
        """Yield every content that the document names, once. Call `SessionDocument.document` before."""
        for digest in (*document.texts.long, *document.texts.named):
            if (content := self.of(document, digest)) is not None:
                yield digest, content

    def _named(self, digest: BlobDigest, media_type: str) -> Content:
        try:
            data = self._blob_get(digest)
        except KeyError:
            return Content(left_out=MISSING)
        except StoreError as error:
            return Content(left_out=str(error))
        if media_type.startswith("image/"):
            if self._hidden.storable(data) is None:
                return Content(left_out=SECRET)
            return Content(data=b64encode(data).decode(), media_type=media_type)
        try:
            text = data.decode("utf-8", "replace" if media_type else "strict")
        except UnicodeDecodeError:
            return Content(left_out=BINARY)
        return Content(left_out=BINARY) if "\0" in text and not media_type else Content(text=self._hidden.redact(text))
