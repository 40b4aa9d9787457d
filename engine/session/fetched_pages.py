"""What a statement gets for a fetched address: Markdown, other text, or a file. Used by `tool_calls`; blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..runtime.pages import markdown_of
from .fetching import MOST_BYTES, Fetched
from .tools.fetch import PAGES, decoded_text, file_name, is_text, media_type

CUT: Final = f"cut after {MOST_BYTES >> 20} MiB"


def fetched(response: Fetched, keep: Callable[[str, bytes], str]) -> dict[str, object]:
    """Return the plain data of the answer (`runtime.results`). `keep` writes a file and returns its path.

    Raises OSError if the file cannot be written.
    """
    kind, charset = media_type(response.content_type, response.data)
    answer: dict[str, object] = {"url": str(response.url), "status": response.status, "type": kind}
    notes = [CUT] if response.is_cut else []
    if kind in PAGES:
        try:
            page = markdown_of(response.data, str(response.url), charset)
        except ValueError as error:
            notes.append(str(error))
        else:
            return {**answer, "title": page.title, "text": page.text, "note": "; ".join(notes)}
    elif is_text(kind):
        return {**answer, "text": decoded_text(response.data, charset), "note": "; ".join(notes)}
    path = keep(file_name(response.url, kind), response.data) if response.data else ""
    return {**answer, "path": path, "note": "; ".join(notes)}
