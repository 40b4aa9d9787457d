"""Outlines of large texts: ticks do not wait for one, and show a prepared one while it is current."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.files.outline.fallbacks import outline_by_indentation
from engine.files.outline.model import Outline, Symbol, Tier, packed, unpacked
from engine.files.outlines import AT_ONCE
from engine.files.view import ViewHandle
from engine.log.events import Event
from engine.log.events.nodes import AsyncPayloadApplied, AsyncPayloadDropped, NodeChanged, OutlineMade
from engine.log.statements import PAYLOAD_BYTES
from tests.support.boards import Desk

LINES = "".join(f"def function_{number}():\n    return {number}\n\n\n" for number in range(9_000))
ROUGHLY = "outlined roughly until a parser has read it"


class _Outliner:
    """Says that a parser did what indentation does; `asked` are the sizes of the texts."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def outline(
        self, text: Callable[[], bytes], *, digest: str, path: str, tier: Tier | None = None, **_: object
    ) -> Outline:
        del digest, path
        self.asked.append(len(text()))
        return Outline(tier=tier or "tree-sitter", symbols=outline_by_indentation(text()).symbols)


@pytest.fixture
def outliner() -> _Outliner:
    return _Outliner()


@pytest.fixture
def desk(tmp_path: Path, outliner: _Outliner) -> Desk:
    desk = Desk(tmp_path, outliner=outliner)
    desk.write("big.py", LINES)
    return desk


def _prepared(symbol: str = "Foo", line: int = 36_001) -> bytes:
    found = Symbol(kind="class", name=symbol, qualified=symbol, first_line=line, last_line=line, signature=symbol)
    return packed(Outline(tier="tree-sitter", language="python", lines=36_001, symbols=(found,)), PAYLOAD_BYTES)


def _view(desk: Desk, name: str = "v") -> ViewHandle:
    view = desk.get(name)
    assert isinstance(view, ViewHandle)
    return view


def _wants(desk: Desk) -> list[str]:
    return [want.work for want in desk.board.wants()]


def test_a_running_view_of_a_large_text_has_a_rough_outline(desk: Desk, outliner: _Outliner) -> None:
    assert len(LINES) > AT_ONCE
    report = desk.run("v = view('big.py', lod=1, freq='Sync')")
    assert report.displays[0].text.startswith(f"36000 lines of python, {ROUGHLY}\n1-2\tdef function_0")
    assert outliner.asked == []
    assert not any(isinstance(event, OutlineMade) for event in report.events)
    assert _wants(desk) == ["outline"]


def test_a_prepared_outline_is_shown_and_reported_once(desk: Desk, outliner: _Outliner) -> None:
    desk.run("v = view('big.py', lod=1, freq='Sync')")
    events = desk.tick(desk.prepared("v", _prepared(), "parse", "outline"))
    assert [event.kind for event in events] == ["async_payload_applied", "node_changed", "tick_applied"]
    assert "36001\tFoo\n" in _view(desk).rendered.text
    assert ROUGHLY not in _view(desk).rendered.text
    assert (_wants(desk), outliner.asked) == ([], [])
    assert desk.tick() == ()


def test_a_tick_that_takes_an_outline_still_looks(desk: Desk) -> None:
    desk.run("v = view('big.py', lod=1, freq='Sync')")
    payload = desk.prepared("v", _prepared(), "parse", "outline")
    desk.write("big.py", LINES + "x = 1\n")
    told = [event.delta for event in desk.tick(payload) if isinstance(event, NodeChanged)]
    assert [delta.split("\n")[0] for delta in told] == [
        "big.py: its outline is ready; levels 1 and 2 show it",
        "1 line changed in big.py (+1 -0), first at line 36001",
    ]
    assert ROUGHLY in _view(desk).rendered.text
    assert _wants(desk) == ["outline"]


def _dropped(events: tuple[Event, ...]) -> list[str]:
    return [event.reason for event in events if isinstance(event, AsyncPayloadDropped)]


def test_an_outline_of_something_else_is_dropped_with_the_reason(desk: Desk) -> None:
    desk.run("v = view('big.py', lod=1, freq='Sync'); w = view('big.py', lod=1, freq='Sync')")
    early = desk.prepared("v", _prepared(), "parse", "outline")
    desk.write("big.py", LINES + "x = 1\n")
    desk.tick()
    assert _dropped(desk.tick(early)) == ["stale"]
    assert _dropped(desk.tick(desk.prepared("v", b"no outline", "parse", "outline"))) == ["unusable"]
    assert _dropped(desk.tick(desk.prepared("v", b"x" * (PAYLOAD_BYTES + 1), "parse", "outline"))) == ["too large"]
    gone = desk.prepared("w", _prepared(), "parse", "outline")
    desk.run("del w")
    assert _dropped(desk.tick(gone)) == ["vanished"]
    paused = desk.prepared("v", _prepared(), "parse", "outline")
    desk.run("v.Pause()")
    assert _dropped(desk.tick(paused)) == ["stale"]


@pytest.mark.slow
def test_a_paused_view_is_outlined_at_once(desk: Desk, outliner: _Outliner) -> None:
    desk.run("v = view('big.py', lod=1)")
    assert ROUGHLY not in _view(desk).rendered.text
    assert (outliner.asked, _wants(desk)) == ([len(LINES)], [])
    desk.run("v.Run().SetTokens(900)")
    assert ROUGHLY in _view(desk).rendered.text
    desk.run("v.Pause()")
    assert ROUGHLY not in _view(desk).rendered.text
    assert _wants(desk) == []


def test_a_small_text_is_outlined_at_once_wherever_it_changes(desk: Desk) -> None:
    desk.write("small.py", LINES[: AT_ONCE - 100])
    desk.run("v = view('small.py', lod=1, freq='Sync')")
    assert ROUGHLY not in _view(desk).rendered.text
    assert _wants(desk) == []


@pytest.mark.slow
def test_a_symbol_is_not_gone_before_the_outline_is_final(desk: Desk) -> None:
    desk.write("big.py", "class Foo:\n    pass\n" + LINES)
    desk.run("v = view('big.py', 'Foo', lod=1, freq='Sync')")
    desk.write("big.py", LINES + "class Foo:\n    pass\n")
    assert "gone" not in "".join(event.delta for event in desk.tick() if isinstance(event, NodeChanged))
    desk.tick(desk.prepared("v", _prepared(), "parse", "outline"))
    assert _view(desk).place.line == 36_000
    desk.write("big.py", LINES)
    desk.tick()
    desk.tick(desk.prepared("v", _prepared("Bar", 3), "parse", "outline"))
    assert "(Foo is gone)" in _view(desk).title


def test_a_group_shows_what_was_prepared_for_its_members(desk: Desk) -> None:
    desk.run("v = view('big.py', freq='Sync'); g = group(v, lod=1)")
    assert ROUGHLY in desk.run("show(g)").displays[0].text
    desk.tick(desk.prepared("v", _prepared(), "parse", "outline"))
    assert ROUGHLY not in desk.run("show(g)").displays[0].text


def test_replayed_payloads_give_equal_events_and_texts(desk: Desk) -> None:
    desk.run("v = view('big.py', lod=1, freq='Sync')")
    events = desk.tick(desk.prepared("v", _prepared(), "parse", "outline"))
    assert isinstance(events[0], AsyncPayloadApplied)
    again = desk.rebuilt()
    assert [step.events for step in again.steps] == [step.events for step in desk.steps]
    assert _view(again).rendered.text == _view(desk).rendered.text


@pytest.mark.slow
@pytest.mark.parametrize("most", [1_000, 5_000, PAYLOAD_BYTES, 10**7])
def test_a_large_outline_keeps_outer_and_public_symbols(most: int) -> None:
    text = "".join(f"class C{number}:\n    def method(self):\n        pass\n" for number in range(2_000))
    outline = outline_by_indentation(text.encode())
    data = packed(outline, most)
    assert len(data) <= most
    found = unpacked(data)
    assert found.complete is (len(found.symbols) == len(outline.symbols))
    assert found.symbols
    for symbol in found.symbols:
        holder = found.symbols[symbol.parent].name if symbol.parent >= 0 else ""
        assert symbol.qualified == f"{holder}.{symbol.name}" if holder else symbol.name
    if any(symbol.depth for symbol in found.symbols):
        assert sum(not symbol.depth for symbol in found.symbols) == 2_000


def test_an_outline_with_a_wrong_parent_is_refused() -> None:
    symbol = Symbol(kind="class", name="A", qualified="A", first_line=1, last_line=1, signature="A", parent=0)
    with pytest.raises(ValueError, match="comes after"):
        unpacked(packed(Outline(tier="tree-sitter", symbols=(symbol,)), 1_000))


def test_an_outline_of_very_many_imports_does_without_them() -> None:
    outline = Outline(tier="tree-sitter", imports=tuple(f"module_{number}" for number in range(900)))
    assert unpacked(packed(outline, 1_000)) == Outline(tier="tree-sitter", complete=False)
