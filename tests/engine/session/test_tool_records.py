"""What the log keeps of files, links and directories; what an act on names is called; recorded answers."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest
import xxhash

from engine.core.execution import DIRECTORY, LINK, ExceptionInfo
from engine.core.ids import ExecutionId, ToolCallId
from engine.core.plain_data import argument_digest
from engine.core.programs import CommandOutcome
from engine.core.toolbox import RECALL_FILE
from engine.log.events.execution import FileWritten
from engine.log.file_history import ActOnFile
from engine.log.past import PastAnswer, PastQuestion
from engine.log.statements import EffectAnswer, EffectRequest
from engine.log.store.memory import MemoryStore
from engine.session import tool_records
from engine.session.tool_records import (
    Entry,
    FileState,
    RecordedAnswers,
    command_event,
    directories_and_links,
    file_state,
    link_state,
    states_before,
    subject_of,
)
from engine.session.tools import Reading
from engine.session.tools.tree import TreeAct
from engine.session.tools.workspace import Workspace
from tests.support.fixed import FixedClock


@pytest.mark.parametrize("content", [b"", b"abc"])
def test_a_file_within_the_limit_is_read(tmp_path: Path, content: bytes) -> None:
    place = tmp_path / "a"
    place.write_bytes(content)
    found = file_state(str(place), 3)
    assert (found.data, found.digest, found.reason) == (content, xxhash.xxh3_64_hexdigest(content), "")


def test_a_file_above_the_limit_has_its_mark(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    found = file_state(str(tmp_path / "a"), 2)
    assert (found.data, found.digest) == (None, found.mark)
    assert found.mark
    assert found.reason


def test_what_is_not_a_file_has_no_state_and_leaves_nothing_open(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "directory").mkdir()
    before = psutil.Process().num_fds()
    states = [file_state(str(tmp_path / name), 9) for name in ("file", "link", "directory", "gone", "file/below")]
    assert psutil.Process().num_fds() <= before
    assert states[1:] == [FileState()] * 4
    assert states[0].data == b"abc"


def test_directories_and_links_are_found_at_above_and_below_a_path(tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "sub" / "deep").mkdir(parents=True)
    (top / "sub" / "file").write_bytes(b"abc")
    (top / "sub" / "link").symlink_to("file")
    (top / "sub").chmod(0o750)
    (tmp_path / "beside").mkdir()
    found = directories_and_links([str(top)])
    below = {os.path.relpath(path, tmp_path): entry for path, entry in found.items() if path.startswith(f"{tmp_path}/")}
    assert below.keys() == {"top", "top/sub", "top/sub/deep", "top/sub/link"}
    assert below["top/sub"] == Entry(DIRECTORY, 0o750)
    link = below["top/sub/link"]
    assert link == Entry(f"{LINK}{xxhash.xxh3_64_hexdigest(b'file')}", None, b"file")
    assert link_state(str(top / "sub" / "link")) == FileState(link.digest, data=b"file")
    assert link_state(str(top / "sub" / "file")) == FileState()
    assert str(tmp_path) in found


def test_a_removed_directory_is_asked_about_with_its_files(tmp_path: Path) -> None:
    top = str(tmp_path / "top")
    act = TreeAct(paths=(top,), do=lambda: None, becomes=((f"{top}/a", None), (f"{top}/b", None)), protected="git")
    request = EffectRequest(ordinal=0, operation="remove", arguments={"path": "top"})
    subject = subject_of(request, act, {}, Workspace(str(tmp_path)))
    assert (subject.kind, subject.protected, subject.paths) == ("delete", "git", (top,))
    assert subject.note.splitlines()[-3:] == ["2 files in it:", "a", "b"]


def test_a_removed_binary_file_shows_its_size_and_a_replaced_one_both_sizes(tmp_path: Path) -> None:
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    before = {old: FileState("1", data=b"\0" * 2000), new: FileState("2", data=b"\0" * 3000)}
    remove = TreeAct(paths=(old,), do=lambda: None, becomes=((old, None),), protected="")
    move = TreeAct(paths=(new, old), source=new, do=lambda: None, becomes=((new, None), (old, new)), protected="")
    requests = [
        EffectRequest(ordinal=0, operation="remove", arguments={"path": "old"}),
        EffectRequest(ordinal=0, operation="move", arguments={"source": "new", "destination": "old"}),
    ]
    removed, moved = (
        subject_of(request, act, before, Workspace(str(tmp_path)))
        for request, act in zip(requests, (remove, move), strict=True)
    )
    assert (removed.changes, moved.changes) == ((), ())
    sizes = moved.note.split(" -> ")
    assert len(sizes) == 2
    assert removed.note == sizes[0] != sizes[1]


def test_what_one_act_removes_is_kept_up_to_a_limit_in_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [str(tmp_path / name) for name in "abc"]
    for path in paths:
        Path(path).write_bytes(b"xy")
    act = TreeAct(paths=tuple(paths), do=lambda: None, becomes=tuple((path, None) for path in paths), protected="")
    assert [states_before(act)[path].data for path in paths] == [b"xy"] * 3
    monkeypatch.setattr(tool_records, "_KEPT_TOGETHER", 5)
    assert [states_before(act)[path].data for path in paths] == [b"xy", b"xy", None]


def test_a_recorded_error_is_the_answer_to_one_request() -> None:
    error = ExceptionInfo(type="FileNotFoundError", message="gone")
    request = EffectRequest(ordinal=0, operation="read", arguments={"path": "a"})
    question = PastQuestion(ordinal=0, operation="read", argument_digest=argument_digest(request.arguments))
    answers = RecordedAnswers([PastAnswer(error=error, question=question)], MemoryStore(FixedClock()))
    assert answers.take(request) == (EffectAnswer(error=error), None)
    assert answers.take(request) is None


def test_a_recorded_file_is_recalled_as_before_its_write_and_then_as_after_it() -> None:
    store = MemoryStore(FixedClock())
    request = EffectRequest(ordinal=0, operation="write", arguments={"path": "a"})
    question = PastQuestion(ordinal=0, operation="write", argument_digest=argument_digest(request.arguments))
    written = FileWritten(
        execution_id=ExecutionId("e"),
        tool_call_id=ToolCallId("c"),
        path="/w/a",
        after=store.blob_put(b"new"),
        after_digest="digest",
    )
    act = ActOnFile((question.operation, question.argument_digest), 0, written)
    answers = RecordedAnswers([PastAnswer(content=store.blob_put(b"null"), question=question)], store, [act])

    def recalled(path: str, *, content: bool) -> object:
        recall = EffectRequest(ordinal=1, operation=RECALL_FILE, arguments={"path": path, "content": content})
        return answers.recall(recall)

    assert recalled("/w/other", content=True) is None
    assert recalled("/w/a", content=True) == {"content": None}
    assert answers.take(request) == (EffectAnswer(value=None), Reading(path="/w/a", digest="digest", value=None))
    assert recalled("/w/a", content=True) == {"content": b"new"}
    assert recalled("/w/a", content=False) == {"content": b""}


def test_the_record_of_a_command_says_how_it_ended() -> None:
    outcome = CommandOutcome(signal=9, timed_out=True, reason="why", seconds=1.5)
    ended = command_event(ToolCallId("c"), ExecutionId("e"), "/w", outcome)
    assert (ended.tool_call_id, ended.execution_id, ended.cwd) == ("c", "e", "/w")
    assert (ended.code, ended.signal, ended.timed_out, ended.reason, ended.time_ms) == (None, 9, True, "why", 1500)
    assert command_event(ToolCallId("c"), ExecutionId("e"), "/w", CommandOutcome(code=3)).code == 3
