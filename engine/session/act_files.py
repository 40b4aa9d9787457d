"""The files of an act: what they held before and after, and recorded answers of an earlier run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec
import xxhash
from msgspec import Struct

from ..core.errors import StoreError
from ..core.ids import BlobDigest
from ..core.plain_data import argument_digest
from ..core.text import legible_line, plural
from ..core.toolbox import RECALL_FILE, ROUTED, call_title
from ..files.safe_open import Pinned, is_on_procfs, pinned
from ..log.file_history import ActOnFile, Question
from ..log.past import PastAnswer
from ..log.permissions import TreeSubject
from ..log.statements import EffectAnswer, EffectRequest
from ..log.store_protocol import Store
from .questions import named, protected_line
from .tools import Reading, TreeAct, Workspace, changes_of, name_text

# What a file holds at one moment, as far as it is kept: its content, or a mark of its state, and its permissions.
#
# Only regular files are opened (`pinned`), and only where they were said to be: a statement names the file, and its
# processes may put a link above it before the host looks, which has rights that the statement has not. Blocks, so it
# is called on a thread. Must not know why somebody looks. Used by `touches` for what a statement's own code writes,
# and by `acts` for what goes with a name.


class Look(Struct, frozen=True):
    """A file at one moment: `mark` and `mode` as in `Pinned`; `reason` says why the content is not there."""

    digest: str = ""
    mark: str = ""
    data: bytes | None = None
    reason: str = ""
    mode: int | None = None


def look(place: str, limit: int) -> Look:
    """What the file at a real absolute place holds, where that has at most `limit` bytes.

    A link, a directory or a device is no file, nor is what a link above the name leads to.
    """
    try:
        found = pinned(place, follows=False)
    except (OSError, ValueError):
        return Look()  # because what is above it is gone
    try:
        if found.kind != "file" or found.place != os.fsencode(place) or is_on_procfs(found.descriptor):
            return Look()
        return _read(found, limit)
    except OSError:
        return Look()  # because its file system does not answer
    finally:
        found.close()


def _read(found: Pinned, limit: int) -> Look:
    if found.size <= limit:
        try:
            data = b"".join(found.pieces(limit + 1))
        except OSError as error:
            return Look(found.mark, found.mark, reason=f"it cannot be read: {error.strerror}", mode=found.mode)
        if len(data) <= limit:
            return Look(xxhash.xxh3_64_hexdigest(data), found.mark, data, mode=found.mode)
    return Look(found.mark, found.mark, reason=f"it has more than {limit >> 20} MiB", mode=found.mode)


# tree acts:
# What goes with an act on the file tree: what the files hold before it and after it, and what a person is asked.
#
# Must not know who asks or what is recorded. Called by `acts`; but for `subject_of`, it blocks.

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


# recorded answers:
# The recorded answers that a statement gets which stands in the place of an earlier one.
#
# One counts where the same was asked: the operation and the digest of its arguments are the same, as in a rebuild;
# each once. What held a secret, or cannot be read from the store any more, is no answer. Whoever opens a file to
# change it finds there what the earlier one did, because what it writes could not be the same otherwise. An answer
# also says what a file held, or was made to hold: nothing else may be written over later. Used by `acts`, made by
# `editing`.


class RecordedAnswers:
    """Those of one execution. `acts` are what its answers are of, as far as that changed files."""

    def __init__(self, answers: Iterable[PastAnswer], store: Store, acts: Sequence[ActOnFile] = ()) -> None:
        self._left = [answer for answer in answers if answer.question is not None and not answer.withheld]
        self._store = store
        self._acts = acts
        self._given: Counter[Question] = Counter()

    def take(self, request: EffectRequest) -> tuple[EffectAnswer, Reading | None] | None:
        """The answer to the same question, once, and what is known of a file by it; None where there is none.

        Reads the store.
        """
        asked = named(request), argument_digest(request.arguments)
        answer = self._find(asked)
        if answer is None:
            return None
        turn = self._given[asked]
        self._left.remove(answer)
        self._given[asked] += 1
        given = self._value(answer)
        return None if given is None else (given, self._known(answer, asked, turn, given.value))

    def _known(self, answer: PastAnswer, asked: Question, turn: int, value: object) -> Reading | None:
        if answer.path:
            return Reading(path=answer.path, digest=answer.digest, value=value)
        match [act.written for act in self._acts if (act.question, act.turn) == (asked, turn)]:
            case [written]:
                return Reading(path=written.path, digest=written.after_digest, value=value)
            case _:
                return None

    def recall(self, request: EffectRequest) -> object:
        """What the record says to one of `toolbox.RECALLS`; None for what is no such question. Reads the store."""
        match request.arguments:
            case {"path": str(path), "content": bool(content)} if request.operation == RECALL_FILE:
                return self._file(name_text(path), content=content)
            case {"operation": str(operation), "arguments": dict()}:
                arguments: Any = request.arguments["arguments"]
                return self._find((operation, argument_digest(arguments))) is not None
            case _:
                return None

    def _find(self, asked: Question) -> PastAnswer | None:
        for answer in self._left:
            if answer.question and (answer.question.operation, answer.question.argument_digest) == asked:
                return answer
        return None

    def _file(self, path: str, *, content: bool) -> dict[str, bytes | None] | None:
        acts = [act for act in self._acts if act.written.path == path]
        if not acts:
            return None
        ahead = next((act.written for act in acts if act.turn >= self._given[act.question]), None)
        if ahead is None:
            return self._held(acts[-1].written.after, acts[-1].written.after_digest, content)
        return self._held(ahead.before, ahead.before_digest, content)

    def _held(self, kept: BlobDigest | None, digest: str, content: bool) -> dict[str, bytes | None] | None:
        if not digest:
            return {"content": None}
        if not content:
            return {"content": b""}
        try:
            return None if kept is None else {"content": self._store.blob_get(kept)}
        except (KeyError, StoreError):
            return None

    def _value(self, answer: PastAnswer) -> EffectAnswer | None:
        if answer.error is not None or answer.content is None:
            return EffectAnswer(error=answer.error)
        try:
            return EffectAnswer(value=msgspec.json.decode(self._store.blob_get(answer.content)))
        except (KeyError, StoreError):
            return None
