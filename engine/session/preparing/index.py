"""The work "index": the files of a glob are outlined beside, and ranked by what refers to them, for an overview.

Outlines are made where they are always made, in a process that may die of a text; this one reads and counts. Only files
of the workspace are read, and none that holds a secret: its names would reach a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import anyio.to_thread

from ...files.outline.model import TOP, Kind, Outline, Outliner, Symbol
from ...files.outlines import Declared, packed, ranked
from ...files.revision import Listed, manifest_of, place_of
from ...log.statements import PAYLOAD_BYTES, Want
from .sources import Made, Sources

_MOST: Final = 1_500
"""Files that are outlined, at most; of more, those in the order of their paths."""
_LARGEST: Final = 128 << 10
"""Bytes of a file that is."""
_NO_CODE: Final[frozenset[Kind]] = frozenset({"heading", "key", "rule", "element"})


async def index(want: Want, sources: Sources) -> Made | None:
    """The overview of the files that the glob at `want.path` lists now; None where nobody makes outlines."""
    if sources.outliner is None:
        return None
    outliner = sources.outliner()
    root, _ = place_of(want.path)
    found = await anyio.to_thread.run_sync(sources.disk.look, want.path, want.title, None)
    manifest = manifest_of(found.revision)
    if manifest.paths_digest != want.basis.obj_digest_hash:
        return None  # other files are there by now, and the next tick will wish for an overview of those
    declared: dict[str, Declared] = {}
    for path in _outlined(list(manifest.files.items())):
        # One by one, so that a session that closes waits for one file at most.
        one = await anyio.to_thread.run_sync(_declared, f"{root.rstrip('/')}/{path}", path, sources, outliner)
        if one is not None:
            declared[path] = one
    data = await anyio.to_thread.run_sync(lambda: packed(ranked(declared), PAYLOAD_BYTES))
    return Made(payload_kind="index", data=data, mark=manifest.paths_digest)


def _outlined(files: Sequence[tuple[str, Listed]]) -> list[str]:
    return [path for path, listed in files if listed.size <= _LARGEST][:_MOST]


def _declared(path: str, title: str, sources: Sources, outliner: Outliner) -> Declared | None:
    found = sources.disk.look(path, title, None)
    revision = found.revision
    if revision.state != "text" or found.data is None:
        return None
    text = "\n".join(revision.lines) + "\n"
    if sources.redactor.holds(text):
        return None
    outline = outliner.outline(text.encode, digest=revision.digest, path=title, references=True)
    names = tuple(symbol.name for symbol in _outer(outline) if symbol.public)
    is_code = not any(symbol.kind in _NO_CODE for symbol in outline.symbols)
    return Declared(names=names, uses=outline.references, imports=outline.imports, is_code=is_code)


def _outer(outline: Outline) -> Iterator[Symbol]:
    """The symbols of the file itself, or of a namespace around them."""
    spaces = {TOP}
    for index, symbol in enumerate(outline.symbols):
        if symbol.parent in spaces:
            if symbol.kind == "module":
                spaces.add(index)
            else:
                yield symbol
