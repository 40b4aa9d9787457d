"""The sync tick: what moved is read once, changed running views say how, and nothing at a tick is an exception."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.files.view import ViewHandle
from engine.log.events import Event
from engine.log.events.nodes import FileChanged, NodeChanged, RevisionAdopted, TickApplied
from tests.support.boards import Desk, deltas, kinds

_TEXT = "".join(f"line {number}\n" for number in range(1, 101))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_changed_file_gives_its_events_in_order_and_one_delta_per_running_view(desk: Desk) -> None:
    path = desk.write("a.py", _TEXT)
    desk.write("b.py", "b\n")
    desk.run("a = view('a.py', freq='Sync'); b = view('b.py', freq='Sync'); c = view('a.py').Run(); d = view('a.py')")
    assert desk.tick() == ()
    desk.write("a.py", _TEXT.replace("line 31\n", "line 31\nmore\n").replace("line 90\n", ""))
    events = desk.tick()
    assert kinds(events) == [
        "revision_adopted", "file_changed", "node_changed", "tick_applied", "node_changed", "tick_applied",
    ]  # fmt: skip
    _, changed, node, applied, *_ = events
    assert isinstance(changed, FileChanged)
    assert isinstance(node, NodeChanged)
    assert isinstance(applied, TickApplied)
    assert (changed.path, changed.change) == (str(path), "modified")
    assert changed.before_digest != changed.after_digest
    assert (node.obj_id, node.obj_type) == ("view-1.1", "view")
    assert (applied.obj_id, applied.tick_kind, applied.turn_id) == ("view-1.1", "sync", 2)
    summary = "2 lines changed in a.py (+1 -1), first at line 32"
    assert changed.delta == applied.delta == summary
    assert node.delta.splitlines() == [
        summary,
        "@@ -31,2 +31,3 @@",
        " line 31",
        "+more",
        " line 32",
        "@@ -89,3 +90,2 @@",
        " line 89",
        "-line 90",
        " line 91",
    ]
    assert desk.tick() == ()


def test_unchanged_files_are_looked_at_and_not_read(desk: Desk) -> None:
    desk.write("a.py", _TEXT)
    desk.run("a = view('a.py', freq='Sync')")
    stamps, reads = desk.files.stamps, desk.files.reads
    for _ in range(5):
        assert desk.tick() == ()
    assert (desk.files.stamps, desk.files.reads) == (stamps + 5, reads)


def test_a_touched_file_with_equal_content_is_read_once_and_changes_nothing(desk: Desk) -> None:
    desk.write("a.py", _TEXT)
    desk.run("a = view('a.py', freq='Sync')")
    desk.write("a.py", _TEXT)
    reads = desk.files.reads
    assert desk.tick() == desk.tick() == ()
    assert desk.files.reads == reads + 1


def test_a_change_within_the_granularity_of_time_stamps_is_seen(desk: Desk) -> None:
    path = desk.write("a.py", "old\n")
    desk.seconds = path.stat().st_mtime
    desk.run("a = view('a.py', freq='Sync')")
    stood_still = desk.files.stamp(str(path))
    path.write_text("new\n")
    desk.files.stamp = lambda _: stood_still  # as a clock of 10 ms ticks would have it
    assert "file_changed" in kinds(desk.tick())


def test_paused_views_are_not_ticked(desk: Desk) -> None:
    desk.write("a.py", _TEXT)
    desk.run("a = view('a.py'); b = view('a.py', freq='Sync').Pause()")
    stamps = desk.files.stamps
    desk.write("a.py", "x\n")
    assert desk.tick() == ()
    assert desk.files.stamps == stamps


def test_a_content_that_a_statement_adopted_is_not_told_again(desk: Desk) -> None:
    desk.write("a.py", _TEXT)
    desk.run("a = view('a.py', freq='Sync')")
    desk.write("a.py", "x\n")
    desk.run("a.Refresh()")
    assert desk.tick() == ()


def test_what_another_view_adopted_is_still_told_to_a_running_one(desk: Desk) -> None:
    desk.write("a.py", _TEXT)
    desk.run("a = view('a.py', freq='Sync')")
    desk.write("a.py", "x\n")
    desk.run("b = view('a.py')")
    assert kinds(desk.tick()) == ["file_changed", "node_changed", "tick_applied"]


def test_the_throttle_counts_rounds(desk: Desk) -> None:
    desk.write("a.py", "0\n")
    desk.run("a = view('a.py', freq='Sync'); a.min_turn_interval = 3")
    changes: list[int] = []
    for number in range(1, 9):
        desk.write("a.py", f"{number}\n")
        if desk.tick():
            changes.append(desk.round)
    assert changes == [1, 4, 7]
    handle = desk.get("a")
    assert isinstance(handle, ViewHandle)
    assert handle.last_tick_turn == 7


def test_a_file_that_goes_and_comes_back_is_a_state_and_a_delta(desk: Desk) -> None:
    path = desk.write("a.py", "one\n")
    desk.run("a = view('a.py', freq='Sync')")

    def change() -> tuple[str, str]:
        (event,) = (event for event in desk.tick() if isinstance(event, FileChanged))
        return event.change, event.delta

    path.unlink()
    assert change() == ("deleted", "a.py was deleted")
    assert desk.tick() == ()
    assert "no file a.py" in desk.run("show(a)").displays[0].text
    path.mkdir()
    assert change() == ("created", "a.py is there now: empty directory")
    path.rmdir()
    assert change() == ("deleted", "a.py was deleted")
    desk.write("a.py", "one\ntwo\n")
    assert change() == ("created", "a.py is there now: 2 lines")
    desk.write("a.py", b"\x00\x01")
    assert change() == ("modified", "a.py is something else now: binary, 2 bytes, beginning with 00 01")


def test_any_failure_of_reading_is_a_state(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py', freq='Sync')")
    desk.write("a.py", "two\n")

    def failing(path: str, limit: int) -> bytes:
        raise PermissionError(13, "Permission denied", path)

    desk.files.read = failing  # root may read anything
    assert deltas(desk.tick(), lambda event: isinstance(event, TickApplied)) == [
        "a.py cannot be read: Permission denied; Refresh() tries again"
    ]
    assert desk.tick() == ()
    del desk.files.read
    assert kinds(desk.tick())[:2] == ["revision_adopted", "file_changed"]


def test_a_change_of_encoding_alone_is_told_as_such(desk: Desk) -> None:
    desk.write("a.py", "one")
    desk.run("a = view('a.py', freq='Sync')")
    desk.write("a.py", "one\n")
    assert deltas(desk.tick())[0] == "no line changed in a.py: a newline was added at the end"


def test_a_text_never_ticks(desk: Desk) -> None:
    desk.run("a = view(text='x', freq='Sync')")
    assert desk.tick() == ()
    assert desk.files.stamps == 0


def test_the_same_contents_and_clock_give_the_same_events(tmp_path: Path) -> None:
    def session(name: str) -> list[Event]:
        (tmp_path / name).mkdir()
        os.chdir(tmp_path / name)
        desk = Desk(tmp_path / name)
        desk.write("a.py", _TEXT)
        desk.run("a = view('a.py', freq='Sync'); b = view('missing', freq='Sync')")
        collected: list[Event] = []
        for number in range(5):
            desk.write("a.py", _TEXT.replace(f"line {number}", "changed"))
            collected += desk.tick()
        return [event for event in collected if not isinstance(event, FileChanged | RevisionAdopted)]

    here = Path.cwd()
    try:
        assert session("one") == session("two") != []
    finally:
        os.chdir(here)
