"""Sync and periodic ticks, and previews: due views read changed files once and report the change."""

from __future__ import annotations

import pytest

from engine.files.node import checked_freq
from engine.files.view import ViewHandle
from engine.log.events.nodes import FileChanged, TickApplied
from tests.support.boards import Desk, deltas, kinds

_TEXT = "".join(f"line {number}\n" for number in range(1, 101))


def test_a_changed_file_gives_ordered_events_for_running_views(desk: Desk) -> None:
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


def test_a_touched_file_is_read_once_and_unchanged(desk: Desk) -> None:
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


def test_a_change_that_another_view_adopted_is_still_reported(desk: Desk) -> None:
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
    assert handle.last_tick_turn == 7


def test_removed_and_restored_file_is_reported(desk: Desk) -> None:
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
    assert change() == ("created", "a.py exists now: empty directory")
    path.rmdir()
    assert change() == ("deleted", "a.py was deleted")
    desk.write("a.py", "one\ntwo\n")
    assert change() == ("created", "a.py exists now: 2 lines")
    desk.write("a.py", b"\x00\x01")
    assert change() == ("modified", "a.py was replaced: binary, 2 bytes, beginning with 00 01")


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


def test_a_text_never_ticks(desk: Desk) -> None:
    desk.run("a = view(text='x', freq='Sync')")
    assert desk.tick() == ()
    assert desk.files.stamps == 0


_REFUSED: list[object] = [
    "sync", "paused", None, 5, ("Periodic",), ("Periodic", 0), ("Periodic", -1.0), ("Periodic", float("nan")),
    ("Periodic", float("inf")), ("Periodic", True), ("Periodic", "5"), ("Periodic", 10**400), ("Sync", 5),
    ("Periodic", 5, 5), {"Periodic": 5}, [["Periodic", 5]],
]  # fmt: skip


def changed(desk: Desk, text: str) -> list[tuple[str, str]]:
    """Writes the file, ticks, and tells which nodes were changed by which phase."""
    seconds = desk.seconds
    desk.write("a.py", text)
    desk.seconds = seconds
    return [(event.obj_id, event.tick_kind) for event in desk.tick() if isinstance(event, TickApplied)]


@pytest.mark.parametrize("freq", _REFUSED, ids=repr)
def test_an_invalid_frequency_is_refused_with_the_forms(freq: object) -> None:
    with pytest.raises(ValueError, match=r'give "Sync" .*"Async" .*\("Periodic", seconds\) with seconds above 0$'):
        checked_freq(freq)


@pytest.mark.parametrize("freq", [("Periodic", 5), ["Periodic", 5], ("Periodic", 5.0)], ids=repr)
def test_an_interval_is_seconds_however_it_is_written(freq: object) -> None:
    checked = checked_freq(freq)
    assert checked == ("Periodic", 5.0)
    assert isinstance(checked[1], float)


def test_every_frequency_is_accepted_and_shown(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py', freq='Async'); b = view('a.py', freq=('Periodic', 2.5)); c = view('a.py').Run('Async')")
    desk.run("d = view('a.py'); d.Run(freq=['Periodic', 90])")
    nodes = [desk.get(name) for name in "abcd"]
    assert [(node.mode, node.freq) for node in nodes if isinstance(node, ViewHandle)] == [
        ("running", "Async"), ("running", ("Periodic", 2.5)), ("running", "Async"), ("running", ("Periodic", 90.0)),
    ]  # fmt: skip
    listed = str(desk.board.ls())
    assert "running Async" in listed
    assert "running Periodic 2.5s" in listed
    assert "running Periodic 90s" in listed


def test_a_periodic_view_looks_once_after_missed_intervals(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py', freq=('Periodic', 60))")
    assert changed(desk, "two\n") == [("view-1.1", "periodic")]
    stamps = desk.files.stamps
    for text, passed, seen in (("3\n", 59.9, False), ("4\n", 0.1, True), ("5\n", 1_000.0, True), ("6\n", 0.0, False)):
        desk.seconds += passed
        assert changed(desk, text) == ([("view-1.1", "periodic")] if seen else [])
    assert desk.files.stamps == stamps + 2


def test_a_clock_set_back_neither_stops_nor_doubles_looks(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py', freq=('Periodic', 60))")
    assert changed(desk, "two\n")
    desk.seconds -= 100_000.0
    assert changed(desk, "three\n")
    assert not changed(desk, "four\n")
    desk.seconds += 60.0
    assert changed(desk, "five\n")


def test_periodic_views_are_ticked_after_those_of_the_round(desk: Desk) -> None:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py', freq=('Periodic', 60)); b = view('a.py', freq='Sync'); c = view('a.py', freq='Async')")
    desk.write("a.py", "two\n")
    assert kinds(desk.tick()) == [
        "revision_adopted", "file_changed", "node_changed", "tick_applied", "node_changed", "tick_applied",
    ]  # fmt: skip
    desk.seconds += 60
    assert changed(desk, "three\n") == [("view-1.2", "sync"), ("view-1.1", "periodic")]


def lines(desk: Desk, *, round_id: int = 500, now: float = 1e12) -> list[str]:
    return [item.text for item in desk.board.foresee(round_id, now)]


def test_each_node_says_what_its_tick_says_then(desk: Desk) -> None:
    for name in ("a.py", "b.py", "c.txt", "d.txt"):
        desk.write(name, "one\n", age_ns=10**9)
    desk.run(
        "a = view('a.py', freq='Sync'); b = view('b.py', freq=('Periodic', 5)); parked = view('c.txt'); "
        "many = group('*.py'); held = group(parked, 'd.txt'); text = view(text='x', freq='Sync')"
    )
    desk.tick()
    assert lines(desk) == []
    for name in ("a.py", "b.py", "c.txt"):
        desk.write(name, "one\ntwo\n")
    desk.write("d.txt", "another\n")
    desk.write("new.py", "x\n")
    states = [desk.board.state_of(node) for node in desk.board.handles()]
    found = lines(desk)
    assert found == lines(desk)
    assert found[:2] == [f"1 line changed in {name} (+1 -0), first at line 2" for name in ("a.py", "b.py")]
    assert "new.py" in found[2]
    assert "d.txt" in found[3]
    assert [desk.board.state_of(node) for node in desk.board.handles()] == states
    said = [event.delta for event in desk.tick() if isinstance(event, TickApplied)]
    assert [line for line in found if line not in said] in ([], [found[1]])
    assert lines(desk) in ([], [found[1]])


def test_what_is_not_due_is_not_foreseen(desk: Desk) -> None:
    desk.write("a.txt", "one\n")
    desk.run(
        "slow = view('a.txt', freq='Sync'); slow.min_turn_interval = 3; now = view('a.txt', freq='Async'); "
        "seldom = view('a.txt', freq=('Periodic', 3600))"
    )
    desk.tick()
    ticked = max(view.last_tick_turn for view in desk.board.views())
    last = max(view.last_tick_time for view in desk.board.views())
    desk.write("a.txt", "two\n")
    assert lines(desk, round_id=ticked + 1, now=last + 9) == []
    assert len(lines(desk, round_id=ticked + 3, now=last + 9)) == 1
    assert len(lines(desk, round_id=ticked + 3, now=last + 4_000)) == 2


def test_a_preview_leaves_no_record(desk: Desk) -> None:
    desk.write("a.txt", "one\n")
    desk.run("a = view('a.txt', freq='Sync')")
    desk.write("a.txt", "two\n")
    assert lines(desk)
    assert desk.board.looks.take() == ()
    desk.run("b = view('a.txt', text='x'); before = a.Render().text")
    assert desk.get("before") == "1\tone\n"
    desk.tick()
    desk.run("a.SetTokens(99)")
    assert desk.rebuilt().tail() == desk.tail()
