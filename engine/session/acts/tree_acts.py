"""What goes with an act on the file tree: what the files hold before it and after it, and what a person is asked.

Must not know who asks or what is recorded. Called by `acts`; but for `subject_of`, it blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from ...core.text import legible_line, plural
from ...core.toolbox import ROUTED, call_title
from ...log.permissions import TreeSubject
from ...log.statements import EffectRequest
from ..tools import TreeAct, Workspace, changes_of, name_text
from .act_events import protected_line
from .looks import Look, look

KEPT_BYTES: Final = 64 << 20
"""The largest content of a file that is kept."""
_KEPT_TOGETHER: Final = 256 << 20
"""Bytes of the contents that go or move in one act, as far as they are kept."""
_SHOWN_NAMES: Final = 200
_GONE: Final = Look()


def looks_at(act: TreeAct) -> dict[str, Look]:
    """What the files hold now whose content comes to be elsewhere or goes, by their paths."""
    found: dict[str, Look] = {}
    room = _KEPT_TOGETHER
    for path in dict.fromkeys(each for pair in act.becomes for each in pair if each is not None):
        found[path] = held = look(path, min(KEPT_BYTES, room))
        room -= len(held.data or b"")
    return found


def became(act: TreeAct, before: Mapping[str, Look]) -> Iterator[tuple[str, Look, Look]]:
    """The paths of the files when it is done, each with what it held before and what it holds since."""
    for path, source in act.becomes:
        new = _GONE if source is None else before[source]
        if new.digest and new.data is None:
            new = look(path, 0)  # because what stands for a content that is not read is another one by now
        yield path, before[path], new


def title_of(request: EffectRequest, act: TreeAct, workspace: Workspace) -> str:
    """The act in words, with the names where they really are: those of the request may lead elsewhere by links."""
    real = {"path": workspace.shown(act.paths[-1])} | ({"source": workspace.shown(act.source)} if act.source else {})
    return call_title(request.operation, {**request.arguments, **real})


def subject_of(request: EffectRequest, act: TreeAct, before: Mapping[str, Look], workspace: Workspace) -> TreeSubject:
    """What a person is asked about the act, and what its call shows when it is done."""
    tool = ROUTED.get(request.operation)
    title, kind = title_of(request, act, workspace), tool.kind if tool else "edit"
    files = dict(act.becomes)
    # What it takes from elsewhere is no less its business: a link gives all of a file away.
    paths = tuple(map(name_text, dict.fromkeys(filter(None, (act.source, *act.paths)))))
    said = protected_line(act.protected)
    if act.paths[-1] not in files:
        held = _in_it(act.paths[-1], files)
        notes = (said, act.detail, held)
        note = "\n".join(filter(None, notes))
        return TreeSubject(act=title, kind=kind, protected=act.protected, paths=paths, note=note)
    source = files[act.paths[-1]]
    old, new = before[act.paths[-1]], _GONE if source is None else before[source]
    changes, note = changes_of(old.data, new.data or b"") if old.data or new.data else ((), "")
    if source is None:  # what becomes of it is said below; no text, or another encoding, does
        changes, note = tuple(each for each in changes if each.old), note.partition(" -> ")[0]
    notes = "\n".join(
        filter(None, (said, note, old.reason, new.reason, "the file is removed" if source is None else ""))
    )
    return TreeSubject(act=title, kind=kind, protected=act.protected, paths=paths, changes=changes, note=notes)


def _in_it(directory: str, files: Mapping[str, str | None]) -> str:
    """A line on the files of a directory; where they go for good, their names as well."""
    moved = sum(source is not None for source in files.values())
    count = moved or len(files)
    line = f"{count:,} {plural(count, 'file')} in it" if count else ""
    if moved or not files:
        return line
    names = [legible_line(name_text(path.removeprefix(f"{directory}/"))) for path in islice(files, _SHOWN_NAMES)]
    more = (f"and {count - len(names):,} more",) if count > len(names) else ()
    return "\n".join((f"{line}:", *names, *more))
