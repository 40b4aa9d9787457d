"""What a tool call leaves on the log and shows to people, and what is known of the files that it changes.

Texts are bounded here. `FileState` is a file at one moment. A `TreeAct` gets its question from the states of its files.
`RecordedAnswers` are an earlier run's answers. Must not know how tools act or who is asked. Used by `tool_calls`, and
by `touches` for files that a statement's own code writes.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
import xxhash
from msgspec import Struct

from ..core.errors import StoreError
from ..core.execution import DIRECTORY, LINK, Captured, ExceptionInfo
from ..core.ids import BlobDigest, ExecutionId, ToolCallId
from ..core.plain_data import argument_digest
from ..core.programs import CommandOutcome, CommandOutput
from ..core.text import cut_end, cut_line, cut_middle, legible_line, plural, valid_text
from ..core.toolbox import ASK, RECALL_FILE, ROUTED, call_title
from ..files.pins import is_on_procfs
from ..files.safe_open import Pinned, pinned
from ..files.spellings import stored_path
from ..log.events.conversation import ResultStatus, ToolCall
from ..log.events.execution import CommandEnded, EffectRequested
from ..log.file_history import ActOnFile, Question
from ..log.forms import YES, FormAnswer, asked_by
from ..log.past import PastAnswer
from ..log.permissions import TreeSubject
from ..log.statements import EffectAnswer, EffectRequest
from ..log.store_protocol import Store
from ..runtime.results import NO_ANSWER, shown_value
from .tools import Reading, TreeAct, Workspace, changes_of, name_text

SHOWN_CHARS: Final = 2_000
"""Characters of an answer, and of each argument, that the call on the log repeats. The whole answer is in the blob."""
_NAME_CHARS: Final = 100
_MOST_ARGUMENTS: Final = 20
"""More than any tool has."""
_ERROR_CHARS: Final = 10_000
"""Of an error message; it may contain a path and a diff."""
SHOWN_OUTPUT_CHARS: Final = 65_536
"""Characters of a command's output that the log repeats, from both ends."""
STOPPED: Final = EffectAnswer(error=ExceptionInfo(type="InterruptedError", message="the statement is being stopped"))
CANCELLED: Final = "Cancelled"
"""What the call of an act shows that was stopped before it ended."""
_WRONG: Final = re.compile(r"Expected `(.+)`, got `(.+)` - at `\$\.(\w+)`")
"""Matches msgspec's message about an argument of a wrong type."""
_IN_PYTHON: Final = {"null": "None", "array": "list", "object": "dict"}
_TYPES: Final = re.compile("|".join(_IN_PYTHON))


KEPT_BYTES: Final = 64 << 20
"""The largest file content that is saved."""
_KEPT_TOGETHER: Final = 256 << 20
"""Bytes of all contents that one act removes or moves, as far as they are saved."""
_SHOWN_NAMES: Final = 200


def call_event(request: EffectRequest, call: ToolCallId, parent: ToolCallId) -> ToolCall:
    """Return the call as it is shown, with shortened arguments."""
    given = islice(request.arguments.items(), _MOST_ARGUMENTS)
    shown = {cut_line(name, _NAME_CHARS): _shown_argument(value) for name, value in given}
    return ToolCall(tool_call_id=call, tool=operation_name(request), arguments=shown, parent_id=parent)


def server_question_event(call: ToolCallId, parent: ToolCallId, server: str, message: str) -> ToolCall:
    """Return the question of an MCP server as a call of `ask`."""
    question = cut_end(asked_by(server, message), SHOWN_CHARS)
    return ToolCall(tool_call_id=call, tool=ASK, arguments={"question": question}, parent_id=parent)


def answered_text(answer: FormAnswer) -> str:
    """Return the answer to a server's question, as its call shows it."""
    if answer.outcome != "accepted":
        return f"{NO_ANSWER}: {answer.note}" if answer.note else NO_ANSWER
    lines = [f"{name}: {value}" for name, value in answer.values.items()]
    return cut_end("\n".join(lines) or YES, SHOWN_CHARS)


def operation_name(request: EffectRequest) -> str:
    """Return the operation's name for the log.

    A statement that talks to the host directly may ask for anything.
    """
    return cut_line(request.operation, _NAME_CHARS)


def protected_line(reason: str) -> str:
    """Return the warning on a protected file; empty if there is no reason."""
    return f"Another program would run this outside the sandbox: {reason}" if reason else ""


def request_event(request: EffectRequest, call: ToolCallId, execution_id: ExecutionId) -> EffectRequested:
    """Return the request as a replay compares it."""
    return EffectRequested(
        execution_id=execution_id,
        ordinal=request.ordinal,
        operation=operation_name(request),
        argument_digest=argument_digest(request.arguments),
        tool_call_id=call,
    )


def command_event(call: ToolCallId, execution_id: ExecutionId, cwd: str, outcome: CommandOutcome) -> CommandEnded:
    """Return the event on a command's end and output."""
    return CommandEnded(
        execution_id=execution_id,
        tool_call_id=call,
        cwd=cwd,
        code=outcome.code,
        signal=outcome.signal,
        timed_out=outcome.timed_out,
        reason=outcome.reason,
        time_ms=outcome.seconds * 1000,
        output=_captured(outcome.stdout),
        errors=_captured(outcome.stderr),
    )


def cancelled_command_event(
    call: ToolCallId, execution_id: ExecutionId, cwd: str, shown: Mapping[str, Sequence[str]]
) -> CommandEnded:
    """Return the event on the end of a command that was cancelled, with the output that was streamed until then."""
    output, errors = (_streamed("".join(shown[stream])) for stream in ("stdout", "stderr"))
    return CommandEnded(
        execution_id=execution_id,
        tool_call_id=call,
        cwd=cwd,
        reason=CommandEnded.CANCELLED,
        output=output,
        errors=errors,
    )


def _streamed(text: str) -> Captured:
    return Captured(text=cut_middle(text, SHOWN_OUTPUT_CHARS), total_bytes=len(text.encode()))


def status_of(answer: EffectAnswer) -> ResultStatus:
    """Return the status of the call."""
    if answer.error is None:
        return "ok"
    return "cancelled" if answer is STOPPED else "error"


def answer_text(request: EffectRequest, answer: EffectAnswer) -> str:
    """Return the answer as its call shows it."""
    if answer is STOPPED:
        return CANCELLED
    if answer.error is not None:
        return f"{answer.error.type}: {answer.error.message}"
    return cut_end(shown_value(request.operation, answer.value), SHOWN_CHARS)


def error_answer(error: Exception) -> EffectAnswer:
    """Return the answer for a failure, as the exception that the statement gets."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    filename = f": {error.filename}" if isinstance(error, OSError) and error.filename else ""
    return EffectAnswer(
        error=ExceptionInfo(
            type=type(error).__name__, message=cut_middle(valid_text(f"{reason}{filename}"), _ERROR_CHARS)
        )
    )


def wrong_argument(operation: str, error: msgspec.ValidationError) -> TypeError:
    """Return the error for an argument of a wrong type, with Python's type names."""
    found = _WRONG.fullmatch(str(error))
    if found is None:
        return TypeError(f"{operation}(): {error}")
    expected, got = (_TYPES.sub(lambda name: _IN_PYTHON[name[0]], names) for names in found.group(1, 2))
    return TypeError(f"{operation}(): {found[3]} must be {expected}, not {got}")


def digest_of(data: bytes | None) -> str:
    """Return the xxh3 hex of a content; empty for None."""
    return "" if data is None else xxhash.xxh3_64_hexdigest(data)


def _captured(output: CommandOutput) -> Captured:
    return Captured(text=cut_middle(output.text, SHOWN_OUTPUT_CHARS), total_bytes=output.total)


def _shown_argument(value: object) -> object:
    if isinstance(value, str):
        return cut_end(value, SHOWN_CHARS)
    if isinstance(value, bytes):
        return f"({len(value):,} {plural(len(value), 'byte')})"
    if isinstance(value, (list, dict)):  # which no tool takes, and which may hold anything
        return cut_end(msgspec.json.encode(value).decode(), SHOWN_CHARS)
    return value


# --- files of a call --------------------------------------------------------------------------------------------------
#
# Only regular files are opened (`pinned`), and only at their real path. A statement names the file, and its processes
# could put a link above it before the host looks, which has more rights than the statement. All of this blocks, so it
# is called on a thread.


class FileState(Struct, frozen=True):
    """A file at one moment, or no file if `digest` is empty.

    `mark` and `mode` are as in `Pinned`. `reason` says why `data` is missing.
    """

    digest: str = ""
    mark: str = ""
    data: bytes | None = None
    reason: str = ""
    mode: int | None = None


def file_state(place: str, limit: int) -> FileState:
    """Read the file at a real absolute path, if it has at most `limit` bytes.

    A link, a directory or a device is not a file. Nor is anything behind a link above the name, or what the directory
    lists in another spelling.
    """
    try:
        found = pinned(place, follows=False)
    except (OSError, ValueError):
        return FileState()  # because what is above it is gone
    try:
        if found.kind != "file" or found.place != os.fsencode(place) or is_on_procfs(found.descriptor):
            return FileState()
        if stored_path(place) != place:
            return FileState()
        return _read(found, limit)
    except OSError:
        return FileState()  # because its file system does not answer
    finally:
        found.close()


def link_state(place: str) -> FileState:
    """Return a symbolic link as a file whose content is its target; no file if there is none."""
    entry = _entry(place)
    is_link = entry is not None and entry.digest.startswith(LINK)
    return FileState(entry.digest, data=entry.target) if entry is not None and is_link else FileState()


def _read(found: Pinned, limit: int) -> FileState:
    if found.size <= limit:
        try:
            data = b"".join(found.pieces(limit + 1))
        except OSError as error:
            return FileState(
                found.mark, found.mark, reason=f"the file cannot be read: {error.strerror}", mode=found.mode
            )
        if len(data) <= limit:
            return FileState(xxhash.xxh3_64_hexdigest(data), found.mark, data, mode=found.mode)
    return FileState(found.mark, found.mark, reason=f"the file has more than {limit >> 20} MiB", mode=found.mode)


_GONE: Final = FileState()


def states_before(act: TreeAct) -> dict[str, FileState]:
    """Read the files whose content the act moves or removes, by path."""
    found: dict[str, FileState] = {}
    room = _KEPT_TOGETHER
    respelled = {path for path, source in act.becomes if act.respells and source is not None}
    for path in dict.fromkeys(each for pair in act.becomes for each in pair if each is not None):
        if path in respelled:
            found[path] = _GONE
            continue
        found[path] = held = file_state(path, min(KEPT_BYTES, room))
        room -= len(held.data or b"")
    return found


def states_after(act: TreeAct, before: Mapping[str, FileState]) -> Iterator[tuple[str, FileState, FileState]]:
    """Return the path of each file, with its state before and after the act."""
    for path, source in act.becomes:
        new = _GONE if source is None else before[source]
        if new.digest and new.data is None:
            new = file_state(path, 0)  # because the mark of an unread content has changed
        yield path, before[path], new


class Entry(NamedTuple):
    """A directory or a link at one moment, as `FileWritten` describes it. `target` is what a link names."""

    digest: str
    mode: int | None = None
    target: bytes | None = None


_MOST_ENTRIES: Final = 20_000


def directories_and_links(paths: Iterable[str]) -> dict[str, Entry]:
    """Return the directories and links at and below real paths, and the existing directories above them. Blocks.

    At most _MOST_ENTRIES of them; files are left out, and a path whose name is listed in another spelling.
    """
    found: dict[str, Entry] = {}
    waiting: list[str] = []
    for path in paths:
        if stored_path(path) == path:
            waiting.append(path)
        above = os.path.dirname(path)
        while above not in found and above != os.path.dirname(above):
            if (entry := _entry(above)) is not None:
                found[above] = entry
            above = os.path.dirname(above)
    while waiting and len(found) < _MOST_ENTRIES:
        path = waiting.pop()
        entry = _entry(path)
        if entry is None:
            continue
        found[path] = entry
        if entry.digest == DIRECTORY:
            with suppress(OSError), os.scandir(path) as children:
                waiting += [child.path for child in children if not child.is_file(follow_symlinks=False)]
    return found


def _entry(path: str) -> Entry | None:
    try:
        state = os.lstat(path)
        if stat.S_ISDIR(state.st_mode):
            return Entry(DIRECTORY, stat.S_IMODE(state.st_mode))
        if stat.S_ISLNK(state.st_mode):
            target = os.readlink(os.fsencode(path))
            return Entry(f"{LINK}{xxhash.xxh3_64_hexdigest(target)}", None, target)
    except OSError:
        pass
    return None


_NO_ENTRY: Final = Entry("")


def changed_entries(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> Iterator[tuple[str, Entry, Entry]]:
    """Return the directories and links that differ, with both states, sorted by path."""
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path, _NO_ENTRY), after.get(path, _NO_ENTRY)
        if old != new:
            yield path, old, new


def _title_of(request: EffectRequest, act: TreeAct, workspace: Workspace) -> str:
    """The act in words, with real paths, because those of the request may contain links."""
    real = {"path": workspace.shown(act.paths[-1])} | ({"source": workspace.shown(act.source)} if act.source else {})
    return call_title(request.operation, {**request.arguments, **real})


def subject_of(
    request: EffectRequest, act: TreeAct, before: Mapping[str, FileState], workspace: Workspace
) -> TreeSubject:
    """Return what the user is asked about the act, and what its call shows afterwards. Blocks."""
    tool = ROUTED.get(request.operation)
    title, kind = _title_of(request, act, workspace), tool.kind if tool else "edit"
    files = dict(act.becomes)
    # A hard link gives access to the source's content, so the source counts too.
    paths = tuple(map(name_text, dict.fromkeys(filter(None, (act.source, *act.paths)))))
    said = protected_line(act.protected)
    if act.paths[-1] not in files:
        held = _in_it(act.paths[-1], files)
        notes = (said, act.detail, held)
        note = "\n".join(filter(None, notes))
        return TreeSubject(act=title, kind=kind, protected=act.protected, paths=paths, note=note)
    source = files[act.paths[-1]]
    old, new = before[act.paths[-1]], _GONE if source is None else before[source]
    changes, note = ((), "")
    if old.data or new.data:
        changes, note = changes_of(old.data, new.data or b"", workspace.hide)
    if source is None:  # the act says that it is removed
        changes, note = tuple(each for each in changes if each.old), note.partition(" -> ")[0]
    notes = "\n".join(filter(None, (said, note, old.reason, new.reason)))
    return TreeSubject(act=title, kind=kind, protected=act.protected, paths=paths, changes=changes, note=notes)


def _in_it(directory: str, files: Mapping[str, str | None]) -> str:
    """Return a line on the files of a directory. Names are listed if the files are removed."""
    moved = sum(source is not None for source in files.values())
    count = moved or len(files)
    line = f"{count:,} {plural(count, 'file')} in it" if count else ""
    if moved or not files:
        return line
    names = [legible_line(name_text(path.removeprefix(f"{directory}/"))) for path in islice(files, _SHOWN_NAMES)]
    more = (f"and {count - len(names):,} more",) if count > len(names) else ()
    return "\n".join((f"{line}:", *names, *more))


# --- answers of an earlier run ----------------------------------------------------------------------------------------


class RecordedAnswers:
    """The recorded answers of one execution, for a statement that replaces it.

    An answer matches the same request: the same operation and digest of arguments, as in a rebuild. Each is used once.
    An answer that contained a secret, or cannot be read from the store, counts as missing. A statement that opens a
    file to change it finds what the earlier one found, because its own text could not be the same otherwise. An answer
    also records the content that a file had, or was given; later writes over anything else are refused.

    Args:
        acts: the changes of files that its answers belong to.
    """

    def __init__(self, answers: Iterable[PastAnswer], store: Store, acts: Sequence[ActOnFile] = ()) -> None:
        self._left = [answer for answer in answers if answer.question is not None and not answer.withheld]
        self._store = store
        self._acts = acts
        self._given: Counter[Question] = Counter()

    def take(self, request: EffectRequest) -> tuple[EffectAnswer, Reading | None] | None:
        """Use up the answer to the same request; None if there is none.

        Returns it with what it says about a file. Reads the store.
        """
        asked = operation_name(request), argument_digest(request.arguments)
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
        """Return what the record says to one of `toolbox.RECALLS`, or None.

        Reads the store.
        """
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
