"""The steps of undo and redo follow the disk: a rewind goes back to those of its place on the log."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from engine.core.ids import BlobDigest, ExecutionId, Seq, ToolCallId
from engine.log.events import Event
from engine.log.events.execution import FileWritten
from engine.log.events.going_back import FileToRestore, RewindBegun, Rewound
from engine.log.undo_steps import Steps, files_again, files_of, plan_of, steps_of


def wrote(name: str, path: str = "/f") -> FileWritten:
    return FileWritten(
        execution_id=ExecutionId(name),
        tool_call_id=ToolCallId("call"),
        path=path,
        before_digest=f"before-{name}",
        after_digest=f"after-{name}",
    )


def rewound(since: int, *, cancelled: bool = False) -> list[Event]:
    return [RewindBegun(statement=1, since=Seq(since)), Rewound(statement=1, cancelled=cancelled)]


def undone(name: str, *, is_redo: bool = False, cancelled: bool = False) -> list[Event]:
    of = ExecutionId(name)
    return [
        RewindBegun(statement=1, since=Seq(0), undone=of, is_redo=is_redo),
        Rewound(statement=1, undone=of, is_redo=is_redo, cancelled=cancelled),
    ]


def log(*parts: Event | list[Event]) -> list[Event]:
    events = [event for part in parts for event in (part if isinstance(part, list) else [part])]
    return [replace(event, seq=Seq(place)) for place, event in enumerate(events)]


@pytest.mark.parametrize(
    ("events", "done", "redoable"),
    [
        (log(), "", ""),
        (log(wrote("a"), wrote("a", "/g"), wrote("b")), "ab", ""),
        (log(wrote("a"), wrote("b"), undone("b")), "a", "b"),
        (log(wrote("a"), wrote("b"), undone("b"), undone("a")), "", "ba"),
        (log(wrote("a"), wrote("b"), undone("b"), undone("a"), undone("a", is_redo=True)), "a", "b"),
        (log(wrote("a"), undone("a"), wrote("b")), "b", ""),
        (log(wrote("a"), undone("a", cancelled=True)), "a", ""),
        (log(wrote("a"), wrote("b"), wrote("c"), rewound(1)), "a", ""),
        (log(wrote("a"), wrote("b"), rewound(0)), "", ""),
        (log(wrote("a"), wrote("b"), rewound(1, cancelled=True)), "ab", ""),
        (log(wrote("a"), wrote("b"), undone("b"), rewound(2)), "ab", ""),
        (log(wrote("a"), wrote("b"), rewound(1), rewound(2)), "ab", ""),
    ],
)
def test_steps_follow_the_disk(events: list[Event], done: str, redoable: str) -> None:
    assert steps_of(events) == Steps(tuple(map(ExecutionId, done)), tuple(map(ExecutionId, redoable)))


def test_files_of_one_execution_alone() -> None:
    events = log(wrote("a"), wrote("b"), wrote("b", "/g"))
    found = files_of(events, ExecutionId("b"))
    assert {each.path for each in (*found.files, *found.left)} == {"/f", "/g"}


def test_plan_of_what_was_done_is_found_again() -> None:
    of, file = ExecutionId("a"), FileToRestore(path="/f", present_digest="now", wanted_digest="then")
    begun = RewindBegun(statement=1, since=Seq(1))
    ended = Rewound(statement=1, undone=of, restored=(file,))
    events = log(
        wrote("a"),
        wrote("b"),
        begun,
        wrote("a", "/g"),
        replace(begun, undone=of),
        ended,
        replace(begun, undone=of, is_redo=True),
    )
    rewind, undo, redo = (each for each in events if isinstance(each, RewindBegun))
    assert plan_of(events, rewind) == files_of(events[:2], ExecutionId("b"))
    assert [each.path for each in plan_of(events, undo).left] == ["/f", "/g"]
    assert [each.present_digest for each in plan_of(events, redo).files] == ["then"]


def test_plan_has_what_was_left_because_of_a_doubt() -> None:
    of = ExecutionId("a")
    unsure = replace(wrote("a"), unsure="it may be yours", before=BlobDigest("blob"), after=BlobDigest("blob"))
    events = log(unsure, RewindBegun(statement=1, since=Seq(0)), RewindBegun(statement=1, since=Seq(0), undone=of))
    assert [each.reason for each in files_of(events, of).left] == ["it may be yours"]
    for begun in events[1:]:
        assert isinstance(begun, RewindBegun)
        assert [each.path for each in plan_of(events, begun).files] == ["/f"]


def test_redo_brings_back_what_the_last_undo_took() -> None:
    of = ExecutionId("a")
    files = [FileToRestore(path=name, present_digest="now", wanted_digest="then") for name in ("/f", "/g")]
    events = log(Rewound(statement=1, undone=of, restored=tuple(files)))
    again = files_again(events, of).files
    assert [(each.path, each.present_digest, each.wanted_digest) for each in again] == [
        ("/g", "then", "now"),
        ("/f", "then", "now"),
    ]
    assert files_again(log(), of).files == ()
