"""Payloads are applied by ticks: the newest of each node and kind, while its basis is current."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from engine.log.events import Event
from engine.log.events.nodes import AsyncPayloadApplied, AsyncPayloadDropped
from engine.log.statements import PAYLOAD_BYTES
from tests.support.boards import Desk, kinds


@pytest.fixture
def desk(desk: Desk) -> Desk:
    desk.write("a.py", "one\n")
    desk.run("a = view('a.py', freq='Async')")
    return desk


def _dropped(events: tuple[Event, ...]) -> list[str]:
    return [event.reason for event in events if isinstance(event, AsyncPayloadDropped)]


def _applied(events: tuple[Event, ...]) -> list[str]:
    return [event.obj_id for event in events if isinstance(event, AsyncPayloadApplied)]


def test_an_async_view_shows_what_was_prepared_and_reads_nothing(desk: Desk) -> None:
    stamps, reads = desk.files.stamps, desk.files.reads
    desk.write("a.py", "two\n")
    assert desk.tick() == ()
    events = desk.tick(desk.prepared("a", b"two\n"))
    assert kinds(events) == [
        "revision_adopted", "async_payload_applied", "file_changed", "node_changed", "tick_applied",
    ]  # fmt: skip
    assert events[1].delta == "1 line changed in a.py (+1 -1), first at line 1"
    assert desk.text("a") == "1\ttwo\n"
    assert (desk.files.stamps, desk.files.reads) == (stamps, reads)


def test_tick_in_a_statement_applies_payloads_once(desk: Desk) -> None:
    desk.write("a.py", "two\n")
    older, newer = desk.prepared("a", b"one\n"), desk.prepared("a", b"two\n")
    report = desk.run("changed = tick(); show(a); again = tick()", payloads=(older, newer))
    assert desk.get("changed") == [desk.get("a")]
    assert desk.get("again") == []
    assert [each.text for each in report.displays] == ["1\ttwo\n"]
    assert (_dropped(report.events), _applied(report.events)) == (["superseded"], ["view-1.1"])
    desk.run("pass", payloads=(older,))
    assert desk.run("tick()").events[-1].kind == "statement_ticked"
    other = desk.rebuilt()
    assert [step.events for step in other.steps] == [step.events for step in desk.steps]
    assert other.get("a").state() == desk.get("a").state()


def test_tick_in_a_statement_reads_what_is_not_prepared(desk: Desk) -> None:
    prepared = desk.prepared("a", b"two\n")
    desk.write("a.py", "three\n")
    report = desk.run("changed = tick(); show(a)")
    assert desk.get("changed") == [desk.get("a")]
    assert [each.text for each in report.displays] == ["1\tthree\n"]
    assert _dropped(desk.tick(prepared)) == ["stale"]
    other = desk.rebuilt()
    assert [step.events for step in other.steps] == [step.events for step in desk.steps]
    assert other.get("a").state() == desk.get("a").state()


def test_a_notice_of_a_change_makes_the_tick_look(desk: Desk) -> None:
    desk.write("a.py", "two\n")
    events = desk.tick(desk.prepared("a", b"", "diff"))
    assert _applied(events) == ["view-1.1"]
    assert desk.text("a") == "1\ttwo\n"


@pytest.mark.parametrize("act", ["a.Refresh()", "a.Pause()", "a.Run('Sync')"])
def test_a_payload_with_an_old_basis_is_dropped(desk: Desk, act: str) -> None:
    desk.write("a.py", "two\n")
    payload = desk.prepared("a", b"two\n")
    desk.write("a.py", "three\n")
    desk.run(act)
    shown = desk.text("a")
    events = desk.tick(payload)
    assert _dropped(events) == ["stale"]
    assert _applied(events) == []
    assert desk.text("a") == ("1\tthree\n" if "Sync" in act else shown)


def test_settings_of_a_view_do_not_outdate_content(desk: Desk) -> None:
    payload = desk.prepared("a", b"two\n")
    desk.run("a.SetTokens(50).SetPos('2')")
    assert _applied(desk.tick(payload)) == ["view-1.1"]


def test_payloads_of_missing_nodes_or_too_large_are_dropped(desk: Desk) -> None:
    payload = desk.prepared("a", b"x" * (PAYLOAD_BYTES + 1))
    gone = replace(desk.prepared("a", b"two\n"), obj_id="view-1.9")
    none = replace(desk.prepared("a", b"two\n"), payload_kind="index")
    assert _dropped(desk.tick(payload, gone, none)) == ["too large", "vanished", "unusable"]
    assert desk.text("a") == "1\tone\n"


def test_of_each_node_and_kind_the_newest_is_applied(desk: Desk) -> None:
    desk.run("b = view('a.py', freq='Async')")
    older, other, newer = desk.prepared("a", b"two\n"), desk.prepared("b", b"three\n"), desk.prepared("a", b"three\n")
    events = desk.tick(older, other, newer)
    assert [event.payload_id for event in events if isinstance(event, AsyncPayloadDropped)] == [older.payload_id]
    assert _dropped(events) == ["superseded"]
    assert _applied(events) == ["view-1.1", "view-2.1"]
    assert (desk.text("a"), desk.text("b")) == ("1\tthree\n", "1\tthree\n")
    assert kinds(events).count("file_changed") == 1


def test_a_tick_applies_thirty_two_payloads(desk: Desk) -> None:
    for number in range(40):
        desk.write(f"{number}.py", "one\n")
    desk.run("views = [view(f'{n}.py', freq='Async') for n in range(40)]")
    for number in range(40):
        desk.namespace[f"v{number}"] = desk.get("views")[number]
    payloads = [desk.prepared(f"v{number}", b"two\n") for number in range(40)]
    older = desk.prepared("v39", b"never\n")
    events = desk.tick(older, *payloads)
    assert _applied(events) == ["view-2.40", *(f"view-2.{number + 1}" for number in range(31))]
    done = {event.payload_id for event in events if isinstance(event, AsyncPayloadApplied | AsyncPayloadDropped)}
    assert _dropped(events) == ["superseded"]
    rest = [payload for payload in payloads if payload.payload_id not in done]
    assert len(rest) == 8
    assert len(_applied(desk.tick(*rest))) == 8
    assert {desk.text(f"v{number}") for number in range(40)} == {"1\ttwo\n"}


def test_an_async_view_wants_a_summary_for_each_revision(desk: Desk) -> None:
    desk.run("a.SetLod(2)")
    events = desk.tick(desk.prepared("a", b"It counts.", "other", "summary"))
    assert _applied(events) == ["view-1.1"]
    assert "It counts." in desk.text("a")
    handle = desk.get("a")
    assert [want.work for want in handle.wants()] == ["content"]
    assert handle.state().summary == "It counts."
    desk.tick(desk.prepared("a", b"two\n"))
    assert "It counts." not in desk.text("a")
    assert [want.work for want in handle.wants()] == ["content", "summary"]


def test_ticks_that_applied_payloads_run_again_with_the_same_events(desk: Desk) -> None:
    desk.run("b = view('a.py', freq='Sync')")
    for text in (b"two\n", b"three\n", b"\xff\x00", b""):
        desk.write("a.py", text)
        desk.tick(desk.prepared("a", b"older\n"), desk.prepared("a", text))
        desk.run("seen = a.Render().text, b.Render().text, a.last_tick_time")
    (desk.root / "a.py").unlink()
    other = desk.rebuilt()
    assert [step.events for step in other.steps] == [step.events for step in desk.steps]
    assert other.get("seen") == desk.get("seen")
