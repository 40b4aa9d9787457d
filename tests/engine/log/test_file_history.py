"""Files that a rewind restores, and the sentences about them."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.core.execution import DIRECTORY, UNREAD, Artifact
from engine.core.ids import BlobDigest, BranchId, ExecutionId, Seq, ToolCallId
from engine.log.events import Event
from engine.log.events.conversation import ToolCall, ToolResult
from engine.log.events.execution import FileTouched, FileWritten
from engine.log.events.going_back import FileLeft, FileToRestore, HeadMoved, OwnContents, RewindBegun, Rewound
from engine.log.file_history import (
    MERGED,
    SHOWN_FILES,
    artifacts_of,
    finished_lines,
    is_merge_due,
    open_rewind,
    open_touches,
    restorable,
    reversed_,
    rewound_lines,
    stages,
    written,
)

E = ExecutionId("ex")
UNKEPT = "the earlier content is not stored, because"


def blob(content: str) -> BlobDigest | None:
    return BlobDigest(f"blob-{content}") if content else None


def wrote(path: str, before: str, after: str, /, **fields: Any) -> FileWritten:
    """`before` and `after` stand for contents, "" for no file."""
    known = {"before": blob(before), "after": blob(after), "before_digest": before, "after_digest": after}
    return FileWritten(path=path, **{"execution_id": E, "tool_call_id": ToolCallId("c"), **known, **fields})


def restored(path: str, present: str, wanted: str) -> FileToRestore:
    return FileToRestore(
        path=path, present=blob(present), present_digest=present, wanted=blob(wanted), wanted_digest=wanted
    )


def test_file_gets_its_content_before_the_first_write() -> None:
    found = restorable([wrote("a", "1", "2"), wrote("b", "", "x"), wrote("a", "2", "3"), wrote("c", "y", "")])
    assert found.files == (restored("a", "3", "1"), restored("c", "", "y"), restored("b", "x", ""))
    assert not found.left


def test_what_holds_again_what_it_held_needs_nothing() -> None:
    assert (
        restorable([wrote("a", "1", "2"), wrote("a", "2", "1"), wrote("b", "", "x"), wrote("b", "x", "")]).files == ()
    )


def test_change_by_others_before_the_first_write_comes_back() -> None:
    # The session wrote "1" before these events; what it overwrote later is "of the user".
    assert restorable([wrote("a", "of the user", "2")]).files == (restored("a", "2", "of the user"),)


def test_what_rewinds_did_counts_as_writes() -> None:
    back = Rewound(statement=1, restored=(restored("a", "2", "1"),))
    assert restorable([wrote("a", "1", "2"), back]).files == ()
    assert restorable([back]).files == (restored("a", "1", "2"),)
    assert restorable([back, wrote("a", "1", "5")]).files == (restored("a", "5", "2"),)
    given_up = Rewound(statement=1, cancelled=True)
    assert restorable([wrote("a", "1", "2"), given_up]).files == (restored("a", "2", "1"),)


def merge(path: str, own: tuple[str, str], found: str, result: str) -> FileToRestore:
    """A rewind of what the session did, with `found` there, which has somebody else's changes as the result has."""
    present, wanted = own
    part = OwnContents(present=blob(present), present_digest=present, wanted=blob(wanted), wanted_digest=wanted)
    return replace(restored(path, found, result), own=part, is_merged=True)


def planned(*events: Event) -> FileToRestore:
    (file,) = restorable(events).files
    return file


def test_merged_changes_of_others_stay_out_of_what_is_undone() -> None:
    undone = Rewound(statement=1, restored=(merge("a", ("2", "1"), "2+x", "1+x"),))
    # What the session did is undone already.
    assert restorable([wrote("a", "1", "2"), undone]).files == ()
    # The moment before the merge comes back exactly.
    back = planned(undone)
    assert (back.present_digest, back.wanted_digest, back.is_merged) == ("1+x", "2+x", False)
    assert not is_merge_due(back)
    # A moment before the session's write has no change by others, so that has to be merged again.
    older = planned(wrote("a", "0", "1"), wrote("a", "1", "2"), undone)
    assert older.own == OwnContents(present=blob("1"), present_digest="1", wanted=blob("0"), wanted_digest="0")
    assert (older.present_digest, older.wanted_digest, older.is_merged) == ("1+x", "0", False)
    assert is_merge_due(older)


def test_redone_merge_has_the_changes_of_others() -> None:
    undone = merge("a", ("2", "1"), "2+x", "1+x")
    events = wrote("a", "1", "2"), Rewound(statement=1, restored=(undone,))
    redone = planned(*events, Rewound(statement=1, restored=(reversed_(undone),)))
    assert (redone.present_digest, redone.wanted_digest) == ("2+x", "1")
    assert redone.own == OwnContents(present=blob("2"), present_digest="2", wanted=blob("1"), wanted_digest="1")
    assert is_merge_due(redone)


def test_write_after_a_merge_takes_it_over() -> None:
    undone = Rewound(statement=1, restored=(merge("a", ("2", "1"), "2+x", "1+x"),))
    assert planned(wrote("a", "1", "2"), undone, wrote("a", "1+x", "3")) == restored("a", "3", "1")
    assert planned(undone, wrote("a", "1+x", "3")) == restored("a", "3", "2+x")


def test_merge_that_gives_what_was_wanted_is_no_change_by_others() -> None:
    undone = Rewound(statement=1, restored=(merge("a", ("2", "1"), "2+x", "1"),))
    assert not is_merge_due(planned(wrote("a", "0", "1"), wrote("a", "1", "2"), undone))


def set_mode(path: str, mode: object, status: str = "ok", tool: str = "chmod") -> list[Event]:
    call = ToolCallId(f"mode of {path}")
    arguments = {"path": path, "mode": mode}
    return [
        ToolCall(tool_call_id=call, tool=tool, arguments=arguments, parent_id=ToolCallId("c")),
        ToolResult(tool_call_id=call, status=cast("Any", status), text="", parent_id=ToolCallId("c")),
    ]


def test_last_contents_of_files_are_where_a_session_left_them() -> None:
    events = (
        *(wrote("a", "1", "2"), wrote("a", "2", "3"), *set_mode("a", 0o755), wrote("same", "1", "2")),
        *(wrote("same", "2", "1"), wrote("gone", "1", ""), wrote("new/b", "", "1"), wrote("new", "", DIRECTORY)),
    )
    found = [(file.path, file.present_digest, file.wanted_digest, file.wanted_mode) for file in written(events)]
    assert found == [
        ("new", "", DIRECTORY, None),
        ("a", "1", "3", 0o755),
        ("new/b", "", "1", None),
        ("gone", "1", "", None),
    ]
    back = Rewound(statement=0, restored=restorable(events[:2]).files)
    assert written((*events[:2], back)) == []


def test_permissions_set_by_a_statement_are_expected() -> None:
    first = wrote("a", "1", "2", before_mode=0o644, after_mode=0o644)

    def mode_after(*more: Event) -> int | None:
        return restorable([first, *more]).files[0].present_mode

    assert mode_after() == 0o644
    assert mode_after(*set_mode("a", 0o755)) == 0o755
    assert mode_after(*set_mode("a", 0o755), *set_mode("a", 0o600)) == 0o600
    assert mode_after(*set_mode("a", 0o755), wrote("a", "2", "3", after_mode=0o755)) == 0o755
    for ignored in (
        set_mode("b", 0o755),
        set_mode("a", 0o755, "error"),
        set_mode("a", "0o755"),
        set_mode("a", 0o755, tool="utime"),
        set_mode("a", 0o755)[:1],
    ):
        assert mode_after(*ignored) == 0o644
    assert restorable(set_mode("a", 0o755)).files == ()


def test_contents_that_were_not_kept_are_named_with_the_reason() -> None:
    found = restorable(
        [
            wrote("secret", "1", "2", before=None, withheld="blake2b:00"),
            FileTouched(execution_id=E, path="large", before_digest=f"{UNREAD}1", note="it had more than 64 MiB"),
            wrote("large", f"{UNREAD}1", "2", before=None, noticed=True),
            wrote("unread", f"{UNREAD}2", "2", before=None, noticed=True),
            Rewound(
                statement=1,
                restored=(FileToRestore(path="back", present_digest="9", wanted=blob("1"), wanted_digest="1"),),
            ),
            wrote("secret", "2", "3"),
            wrote("fine", "1", "2"),
        ]
    )
    assert found.files == (restored("fine", "2", "1"),)
    assert found.left == (
        FileLeft(path="secret", reason=f"{UNKEPT} it contains a secret"),
        FileLeft(path="large", reason=f"{UNKEPT} it had more than 64 MiB"),
        FileLeft(path="unread", reason="the earlier content was not read"),
        FileLeft(path="back", reason="the earlier content is not stored"),
    )


def test_only_what_was_lost_first_counts() -> None:
    """What is wanted is the content before the first write; that of a later one may be lost."""
    found = restorable([wrote("a", "1", "2"), wrote("a", "2", "3", before=None, withheld="blake2b:00")])
    assert (found.files, found.left) == ((restored("a", "3", "1"),), ())


def test_rewind_is_open_until_it_ends() -> None:
    begun, ended = RewindBegun(statement=1, since=Seq(0)), Rewound(statement=1)
    assert open_rewind([]) is None
    assert open_rewind(reversed([begun])) is begun
    assert open_rewind(reversed([begun, ended])) is None
    assert open_rewind(reversed([begun, ended, begun, wrote("a", "1", "2")])) is begun


names, contents = st.sampled_from("abc"), st.sampled_from(["", "1", "2", "3"])


@given(st.lists(st.tuples(names, contents)), st.data())
def test_restoring_gives_the_contents_of_that_moment(acts: list[tuple[str, str]], data: st.DataObject) -> None:
    """Played against a disk that is a mapping: a name without a content is no file."""
    log: list[Event] = []
    disk = dict.fromkeys("abc", "")
    moments = [dict(disk)]
    for name, content in acts:
        if data.draw(st.booleans()) and len(log) > 1:
            at = data.draw(st.integers(0, len(log)))
            files = restorable(log[at:]).files
            for file in files:
                assert disk[file.path] == file.present_digest
                disk[file.path] = file.wanted_digest
            assert disk == moments[at]
            log.append(Rewound(statement=1, restored=files))
        else:
            log.append(wrote(name, disk[name], content))
            disk[name] = content
        moments.append(dict(disk))


def test_the_way_back_of_the_way_back_is_the_way() -> None:
    assert reversed_(reversed_(restored("a", "1", "2"))) == restored("a", "1", "2")


def files(*paths: str) -> tuple[FileToRestore, ...]:
    return tuple(FileToRestore(path=path, present_digest="2", wanted_digest="1") for path in paths)


LEFT = FileLeft(path="/work/mine", reason="the file has unsaved changes in the editor")
SAID: dict[str, tuple[Rewound, list[str]]] = {
    "nothing": (Rewound(statement=1), []),
    "one": (
        Rewound(statement=3, restored=files("/work/a")),
        ["Restored 1 file to its contents after statement 3: a."],
    ),
    "two": (
        Rewound(statement=0, restored=files("a", "b\n")),
        ["Restored 2 files to their contents at the beginning: a, b\\n."],
    ),
    "merged": (
        Rewound(statement=3, restored=(*files("a"), merge("b", ("2", "1"), "2+x", "1+x"))),
        ["Restored 2 files to their contents after statement 3: a, b.", MERGED.format(1, "was", "b")],
    ),
    "merged undo": (
        Rewound(statement=3, undone=E, restored=(merge("b", ("2", "1"), "2+x", "1+x"),) * 2),
        ["Undid the changes of statement 3 to 1 file: b.", MERGED.format(2, "were", "b")],
    ),
    "left": (
        Rewound(statement=3, left=(LEFT,)),
        ["mine was not restored: the file has unsaved changes in the editor."],
    ),
    "given up": (
        Rewound(statement=3, cancelled=True),
        ["The rewind was cancelled, and its file changes were undone."],
    ),
    "not all back": (
        Rewound(statement=3, restored=files("a"), cancelled=True),
        ["The rewind was cancelled, and its file changes were undone. 1 file could not be changed back: a."],
    ),
}


@pytest.mark.parametrize("case", SAID)
def test_report_names_restored_and_left_files(case: str) -> None:
    event, lines = SAID[case]
    assert list(rewound_lines(event, lambda path: path.removeprefix("/work/"))) == lines


def test_a_rewind_that_an_opening_finished_is_reported_with_its_files_and_branch() -> None:
    back = Rewound(statement=3, restored=files("/work/a"), left=(LEFT,))
    moved = HeadMoved(branch=BranchId("b2"), left=BranchId("b1"), statement=3)
    settled = [back, moved, wrote("b", "1", "2")]
    first, *lines = finished_lines(settled, lambda path: path.removeprefix("/work/"))
    assert "finished the rewind" in first
    assert lines == [*rewound_lines(back, lambda path: path.removeprefix("/work/")), "The session is on branch b2."]
    assert finished_lines([moved], str) == ()


def test_files_whose_order_matters_are_in_different_stages() -> None:
    made = FileToRestore(path="d", present_digest="", wanted_digest=DIRECTORY)
    back, changed = restored("d/a", "", "1"), restored("b", "2", "1")
    gone, went = restored("c", "1", ""), FileToRestore(path="e", present_digest=DIRECTORY, wanted_digest="")
    assert [list(stage) for stage in stages([made, back, changed, gone, went])] == [
        [made],
        [back, changed],
        [gone],
        [went],
    ]
    # A name that comes twice takes two steps.
    assert [len(stage) for stage in stages([changed, restored("b", "1", "0")])] == [1, 1]
    assert list(stages([])) == []


def test_artifacts_are_files_with_another_content_than_before_the_execution() -> None:
    other = wrote("other", "1", "2", execution_id=ExecutionId("earlier"))
    events: list[Event] = [
        other,
        wrote("a", "1", "2"),
        wrote("same", "1", "2"),
        touched("own", "1"),
        touched("unchanged", "1"),
    ]
    events += [wrote("a", "2", "3"), wrote("same", "2", "1"), wrote("own", "5", "6")]
    assert artifacts_of(events, E) == (
        Artifact(path="a", before_digest="1", after_digest="3"),
        Artifact(path="own", before_digest="1", after_digest="6"),
    )


def test_of_many_files_the_first_are_named() -> None:
    many = Rewound(statement=1, restored=files(*map(str, range(30))), left=(LEFT,) * 30)
    first, *left = rewound_lines(many, str)
    assert first.count(",") == SHOWN_FILES
    assert first.endswith(", 19, ….")
    assert len(left) == SHOWN_FILES + 1
    assert left[-1] == "... 10 more files that were not restored"
    (just,) = rewound_lines(Rewound(statement=1, restored=files(*map(str, range(SHOWN_FILES)))), str)
    assert just.endswith(", 18, 19.")


def touched(path: str, before: str, by: str | None = None) -> FileTouched:
    call = None if by is None else ToolCallId(by)
    return FileTouched(execution_id=E, path=path, before=blob(before), before_digest=before, tool_call_id=call)


def ended(call: str) -> ToolResult:
    return ToolResult(tool_call_id=ToolCallId(call), status="ok", text="")


def test_file_of_a_tool_is_open_until_its_record_or_the_end_of_the_call() -> None:
    begun = [touched("a", "1", "c"), touched("b", "1", "c")]
    assert [each.path for each in open_touches(begun)] == ["a", "b"]
    assert [each.path for each in open_touches([*begun, wrote("a", "1", "2")])] == ["b"]
    assert [each.path for each in open_touches([*begun, ended("other")])] == ["a", "b"]
    assert open_touches([*begun, ended("c")]) == ()


def test_file_of_own_code_stays_open_when_a_tool_writes_it() -> None:
    events = [touched("a", "1"), touched("a", "1", "c"), wrote("a", "1", "2"), ended("c")]
    (found,) = open_touches(events)
    assert (found.before_digest, found.tool_call_id) == ("2", None)
