"""A session's events as one JSON document, entry by entry: the fold behind `rewindow show --json` and the page.

`SessionDocument.apply` takes each event of a whole log and notes which entries it changes. `changes` builds those since
a position, so a live page costs what has changed, and `document` builds all. Both are functions of the events alone: a
document is the sum of the changes since the beginning, however they were cut.

An entry holds the beginning of a long text. The whole is a content, named by the digest of its UTF-8. So a text that
occurs often, such as a result that is also in a prompt, is there once. The log itself names contents of files, prompts
and pictures. Nothing here redacts: the caller passes events and contents without secrets.

Pure, but for `content`, which reads what the log names. Must not know who reads a document.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from ...core.ids import BlobDigest, BranchId
from ...core.text import valid_text
from ...log.branches import BranchRow, branch_rows
from ...log.cycles import RequestCycle
from ...log.events import Event
from ...log.facts import Spent
from ..past.branch_diff import Side, diff
from . import shapes
from .entries import EntryMaker
from .fold import DocumentFold, Key
from .shapes import SCHEMA, TABLES, Patch
from .texts import Hit, Texts


class SessionDocument:
    """The document of a session. `apply` takes every event of its log, in order, without secrets.

    Args:
        session_id: the session's.
        content: returns a text that the log names by its digest, without secrets; None if the store cannot return it.
    """

    def __init__(self, session_id: str, content: Callable[[BlobDigest], str | None]) -> None:
        self._session_id = session_id
        self._fold = DocumentFold()
        self._drafts = self._fold.drafts
        self._maker = EntryMaker(self._drafts, self._fold.prompts, content)
        self._rows: dict[BranchId, BranchRow] = {}

    def apply(self, event: Event) -> None:
        """Take the next event of the log."""
        self._fold.apply(event)

    @property
    def position(self) -> int:
        """How many events it covers."""
        return len(self._fold.events)

    def changes(self, since: int) -> Patch:
        """Return the head, and the entries that the events from position `since` on have changed, perhaps more.

        Only tables that have any are in it. Any number of readers, each at a position of its own, may call it.
        """
        return self._built(self._newer_keys(since))

    def changed_entries(self, since: int) -> Iterator[tuple[str, Key, Struct]]:
        """Yield the entries of `changes`, each with its table and key, one at a time: for very many."""
        return self._entries(self._newer_keys(since))

    def _newer_keys(self, since: int) -> Mapping[str, Collection[Key]]:
        self._mark_requests()
        newer = {name: _newer(touched, since) for name, touched in self._fold.touched.items()}
        # In the order of the document, so that a reader who appends what is new has that order, too.
        for name, keys in (("files", self._drafts.files), ("branches", self.branches)):
            newer[name] = [key for key in keys if key in newer[name]]
        return newer

    def document(self) -> Patch:
        """Return the whole document: the head and every table, without contents."""
        keys: dict[str, Collection[Key]] = {
            "branches": [branch.name for branch in self._fold.branches.all],
            "statements": self._drafts.statements,
            "executions": self._drafts.runs,
            "files": self._drafts.files,
            "conversation": self._drafts.items,
            "requests": [
                key
                for name, path in self._fold.paths.items()
                for key in self._requests(name, path.cycles.model.cycles, 0)
            ],
            "calls": range(1, len(self._drafts.sent) + 1),
            "messages": range(len(self._drafts.messages)),
            "handles": self._drafts.handles,
            "questions": self._drafts.questions,
            "moves": self._drafts.moves,
            "notes": self._drafts.notes,
        }
        built = self._built(keys)
        return {"schema": SCHEMA, "session": built["session"], **{name: built.get(name, []) for name in TABLES}}

    def _built(self, keys: Mapping[str, Collection[Key]]) -> Patch:
        patch: Patch = {"session": self.head()}
        for name, _, entry in self._entries(keys):
            patch.setdefault(name, []).append(entry)
        return patch

    def _entries(self, keys: Mapping[str, Collection[Key]]) -> Iterator[tuple[str, Key, Struct]]:
        build: dict[str, Callable[[Any], Struct | None]] = {
            "branches": self._branch_entry,
            "statements": self._maker.statement,
            "executions": self._maker.execution,
            "files": self._maker.file,
            "conversation": self._maker.item,
            "requests": self._maker.request,
            "calls": self._maker.call,
            "messages": self._maker.message,
            "handles": self._maker.handle,
            "questions": self._maker.question,
            "moves": self._maker.move,
            "notes": self._maker.note,
        }
        if keys.get("branches"):
            self._rows = {row.name: row for row in branch_rows(self._fold.branches, self._fold.facts.statements_below)}
        for name, make in build.items():
            for key in keys.get(name, ()):
                with self._maker.texts.of(name, key):
                    entry = make(key)
                if entry is not None:
                    yield name, key, entry

    def search(self, text: str, most: int) -> Sequence[Hit]:
        """Return the entries that have a text, in any case, with what is around it; at most `most`. O(the log).

        It looks at whole texts of statements, executions, files and the conversation.
        """
        keys: dict[str, Collection[Key]] = {
            "statements": self._drafts.statements,
            "executions": self._drafts.runs,
            "files": self._drafts.files,
            "conversation": self._drafts.items,
        }
        with self._maker.texts.searching(text):
            for table, found in keys.items():
                for key in found:
                    if table == "files":
                        with self._maker.texts.of(table, key):
                            self._maker.texts.look(str(key))
                    self._built({table: (key,)})
                    if len(self._maker.texts.hits) >= most:
                        return tuple(self._maker.texts.hits)
            return tuple(self._maker.texts.hits)

    def comparison(self, left: str, right: str) -> shapes.Comparison:
        """Compare the ends of two branches. O(the log).

        Raises:
            InvalidRequestError: a branch does not exist, or both are the same.
        """
        found = diff(self._fold.events, self._fold.branches, left, right)
        return shapes.Comparison(
            left=valid_text(found.left),
            right=valid_text(found.right),
            shared=found.shared,
            left_statements=tuple(cell.recorded for cell in found.left_cells),
            right_statements=tuple(cell.recorded for cell in found.right_cells),
            names=tuple(
                shapes.NameDifference(name=valid_text(each.name), left=_side(each.left), right=_side(each.right))
                for each in found.names
            ),
            files=tuple(
                shapes.FileDifference(
                    path=valid_text(each.name),
                    name=self._maker.name(valid_text(each.name)),
                    left=_side(each.left),
                    right=_side(each.right),
                )
                for each in found.files
            ),
        )

    @property
    def branches(self) -> Sequence[str]:
        """The names of its branches, oldest first."""
        return tuple(branch.name for branch in self._fold.branches.all)

    @property
    def texts(self) -> Texts:
        """The long texts and named contents of the entries that were built so far."""
        return self._maker.texts

    def text(self, digest: str) -> str | None:
        """Return the whole of a text of which an entry has the beginning; None if no entry has one of that digest."""
        place = self._maker.texts.place(digest)
        if place is None:
            return None
        table, key = place
        with self._maker.texts.looking_for(digest):
            self._built({table: [key]})
        return self._maker.texts.found

    def head(self) -> shapes.SessionHead:
        """Return the head of the document: what it says of the whole session."""
        at, last = self._drafts.moved or self._drafts.opened, self._fold.events[-1] if self._fold.events else None
        opened = self._drafts.opened
        path = self._fold.paths.get(self._fold.branches.active)
        plan = next((each for each in reversed(self._fold.plans) if self._fold.branches.holds(each)), None)
        return shapes.SessionHead(
            session_id=self._session_id,
            cwd=valid_text(at.cwd if at else ""),
            directories=tuple(map(valid_text, at.directories if at else ())),
            title=valid_text(self._fold.title),
            client=valid_text(opened.client) if opened else "",
            confined=at.confined if at else False,
            python=valid_text(at.python if at else ""),
            opened_at=self._fold.events[0].at if self._fold.events else 0.0,
            changed_at=last.at if last else 0.0,
            events=len(self._fold.events),
            branch=valid_text(self._fold.branches.active),
            is_running=path is not None and path.cycles.active is not None,
            mode=self._fold.mode,
            options={valid_text(name): valid_text(value) for name, value in self._fold.options.items()},
            plan=() if plan is None else plan.entries,
            spent=_spent(self._fold.spending.total),
            models={valid_text(name): _spent(spent) for name, spent in self._fold.spending.by_model.items()},
        )

    def _branch_entry(self, name: str) -> shapes.BranchEntry:
        branch, row = self._fold.branches.named(name), self._rows[BranchId(name)]
        assert branch is not None
        return shapes.BranchEntry(
            key=valid_text(name),
            parent=None if branch.parent is None else valid_text(branch.parent),
            before=branch.before,
            shared=row.shared,
            last=row.last,
            is_active=row.is_active,
        )

    # --- requests -----------------------------------------------------------------------------------------------------

    def _mark_requests(self) -> None:
        for name, path in self._fold.paths.items():
            if path.is_new:
                cycles = path.cycles.model.cycles
                for key in self._requests(name, cycles, path.told):
                    self._fold.touch("requests", key)
                path.is_new, path.told = False, max(len(cycles) - 1, 0)

    def _requests(self, branch: str, cycles: Sequence[RequestCycle], since: int) -> Iterator[str]:
        """Yield the keys of the branch's own requests from a number on, and of those with late results."""
        for cycle in cycles:
            if (cycle.number > since or cycle.late) and _is_own(cycle, branch):
                key = f"{branch}/{cycle.number}"
                self._drafts.cycles[key] = cycle
                yield key


def _newer(touched: Mapping[Key, int], since: int) -> Collection[Key]:
    """Return the keys that were touched after `since` events, numbers in their order."""
    newer: dict[Key, None] = {}
    for key in reversed(touched):
        if touched[key] <= since:
            break
        newer[key] = None
    return dict.fromkeys(sorted(newer) if all(isinstance(key, int) for key in newer) else reversed(newer))


def _is_own(cycle: RequestCycle, branch: str) -> bool:
    """Whether the branch has something of the request that its parent has not."""
    last = cycle.stop or (cycle.items[-1] if cycle.items else cycle.root)
    return branch in (last.branch_id, *(late.branch_id for late in cycle.late))


def _side(side: Side | None) -> str | None:
    return None if side is None else valid_text(side.shown)


def _spent(spent: Spent) -> shapes.SpentEntry:
    return shapes.SpentEntry(**asdict(spent))
