"""The tier of an outline is recorded once; outlines of large texts are prepared, and ticks do not wait for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.files.outline.fallbacks import outline_by_indentation
from engine.files.outline.model import Outline, Symbol, Tier, packed, unpacked
from engine.files.outlines import AT_ONCE, Outlines
from engine.log.events import Event
from engine.log.events.nodes import AsyncPayloadDropped, NodeChanged, OutlineMade
from engine.log.statements import PAYLOAD_BYTES
from engine.runtime.worker.handles.states import BoardReport
from tests.support.boards import Desk
from tests.support.revisions import decoded, from_text

_TEXT = "class Foo:\n    def bar(self):\n        return 1\n"


class _Outliner:
    """Makes outlines by indentation and says that the best tier did, or the one that is asked for."""

    def __init__(self, best: Tier = "tree-sitter") -> None:
        self.best: Tier = best
        self.asked: list[tuple[str, str, Tier | None]] = []

    def outline(
        self, text: Callable[[], bytes], *, digest: str, path: str, tier: Tier | None = None, **_: object
    ) -> Outline:
        self.asked.append((digest, path, tier))
        made = outline_by_indentation(text())
        return Outline(tier=tier or self.best, lines=made.lines, symbols=made.symbols)


def _tiers(report: BoardReport) -> list[tuple[str, str]]:
    return [(event.digest, event.tier) for event in report.events if isinstance(event, OutlineMade)]


@pytest.fixture
def outliner() -> _Outliner:
    return _Outliner()


@pytest.fixture
def desk(tmp_path: Path, outliner: _Outliner) -> Desk:
    return Desk(tmp_path, outliner=outliner)


def test_the_first_outline_records_its_tier(desk: Desk) -> None:
    desk.write("a.py", _TEXT)
    digest = decoded(_TEXT.encode()).digest
    assert _tiers(desk.run("a = view('a.py')")) == []
    assert _tiers(desk.run("show(a, lod=1)")) == [(digest, "tree-sitter")]
    assert _tiers(desk.run("show(a, lod=2); b = view('a.py', lod=1)")) == []


def test_outlines_between_steps_are_recorded_with_the_next_step(desk: Desk) -> None:
    desk.write("a.py", _TEXT)
    desk.run("a = view('a.py', freq='Sync').SetLod(1)")
    desk.write("a.py", _TEXT + "\n")
    desk.tick()
    desk.tail()
    assert _tiers(desk.run("0")) == [(decoded((_TEXT + "\n").encode()).digest, "tree-sitter")]


def test_a_recorded_tier_is_used_without_an_event(outliner: _Outliner) -> None:
    outlines = Outlines(outliner)
    revision = from_text(_TEXT)
    outlines.know({revision.digest: "ctags"})
    outlines.settle()
    assert outlines.of(revision, "a.py").tier == "ctags"
    assert outliner.asked == [(revision.digest, "a.py", "ctags")]
    assert outlines.take() == ()


def test_a_replay_repeats_its_record(outliner: _Outliner) -> None:
    outlines = Outlines(outliner)
    revision = from_text(_TEXT)
    outlines.know({revision.digest: "ctags"})
    for _ in range(2):
        assert outlines.of(revision, "a.py").tier == "ctags"
    assert outlines.take() == (OutlineMade(digest=revision.digest, tier="ctags"),)


def test_what_has_no_text_is_not_outlined(desk: Desk, outliner: _Outliner) -> None:
    desk.write("a.bin", bytes(99))
    desk.run("a = view('a.bin', lod=1); b = view('missing', lod=2)")
    assert outliner.asked == []


LINES = "".join(f"def function_{number}():\n    return {number}\n\n\n" for number in range(9_000))
ROUGHLY = "outlined roughly until a parser has read it"


class _Parser:
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
def parser() -> _Parser:
    return _Parser()


@pytest.fixture
def big(tmp_path: Path, parser: _Parser) -> Desk:
    big = Desk(tmp_path, outliner=parser)
    big.write("big.py", LINES)
    return big


def _prepared(symbol: str = "Foo", line: int = 36_001) -> bytes:
    found = Symbol(kind="class", name=symbol, qualified=symbol, first_line=line, last_line=line, signature=symbol)
    return packed(Outline(tier="tree-sitter", language="python", lines=36_001, symbols=(found,)), PAYLOAD_BYTES)


def _wants(big: Desk) -> list[str]:
    return [want.work for want in big.board.wants()]


def test_running_view_of_large_text_has_rough_outline(big: Desk, parser: _Parser) -> None:
    assert len(LINES) > AT_ONCE
    report = big.run("v = view('big.py', lod=1, freq='Sync')")
    assert report.displays[0].text.startswith(f"36000 lines of python, {ROUGHLY}\n1-2\tdef function_0")
    assert parser.asked == []
    assert not any(isinstance(event, OutlineMade) for event in report.events)
    assert _wants(big) == ["outline"]


def test_a_prepared_outline_is_shown_and_reported_once(big: Desk, parser: _Parser) -> None:
    big.run("v = view('big.py', lod=1, freq='Sync')")
    events = big.tick(big.prepared("v", _prepared(), "parse", "outline"))
    assert [event.kind for event in events] == ["async_payload_applied", "node_changed", "tick_applied"]
    assert "36001\tFoo\n" in big.get("v").rendered.text
    assert ROUGHLY not in big.get("v").rendered.text
    assert (_wants(big), parser.asked) == ([], [])
    assert big.tick() == ()


def test_a_tick_that_takes_an_outline_still_looks(big: Desk) -> None:
    big.run("v = view('big.py', lod=1, freq='Sync')")
    payload = big.prepared("v", _prepared(), "parse", "outline")
    big.write("big.py", LINES + "x = 1\n")
    told = [event.delta for event in big.tick(payload) if isinstance(event, NodeChanged)]
    assert [delta.split("\n")[0] for delta in told] == [
        "big.py: the outline is ready; levels 1 and 2 show it",
        "1 line changed in big.py (+1 -0), first at line 36001",
    ]
    assert ROUGHLY in big.get("v").rendered.text
    assert _wants(big) == ["outline"]


def _dropped(events: tuple[Event, ...]) -> list[str]:
    return [event.reason for event in events if isinstance(event, AsyncPayloadDropped)]


def test_an_outline_of_something_else_is_dropped_with_the_reason(big: Desk) -> None:
    big.run("v = view('big.py', lod=1, freq='Sync'); w = view('big.py', lod=1, freq='Sync')")
    early = big.prepared("v", _prepared(), "parse", "outline")
    big.write("big.py", LINES + "x = 1\n")
    big.tick()
    assert _dropped(big.tick(early)) == ["stale"]
    assert _dropped(big.tick(big.prepared("v", b"no outline", "parse", "outline"))) == ["unusable"]
    assert _dropped(big.tick(big.prepared("v", b"x" * (PAYLOAD_BYTES + 1), "parse", "outline"))) == ["too large"]
    gone = big.prepared("w", _prepared(), "parse", "outline")
    big.run("del w")
    assert _dropped(big.tick(gone)) == ["vanished"]
    paused = big.prepared("v", _prepared(), "parse", "outline")
    big.run("v.Pause()")
    assert _dropped(big.tick(paused)) == ["stale"]


@pytest.mark.slow
def test_a_paused_view_is_outlined_at_once(big: Desk, parser: _Parser) -> None:
    big.run("v = view('big.py', lod=1)")
    assert ROUGHLY not in big.get("v").rendered.text
    assert (parser.asked, _wants(big)) == ([len(LINES)], [])
    big.run("v.Run().SetTokens(900)")
    assert ROUGHLY in big.get("v").rendered.text
    big.run("v.Pause()")
    assert ROUGHLY not in big.get("v").rendered.text
    assert _wants(big) == []


def test_a_small_text_is_outlined_at_once_wherever_it_changes(big: Desk) -> None:
    big.write("small.py", LINES[: AT_ONCE - 100])
    big.run("v = view('small.py', lod=1, freq='Sync')")
    assert ROUGHLY not in big.get("v").rendered.text
    assert _wants(big) == []


@pytest.mark.slow
def test_a_symbol_is_not_gone_before_the_outline_is_final(big: Desk) -> None:
    big.write("big.py", "class Foo:\n    pass\n" + LINES)
    big.run("v = view('big.py', 'Foo', lod=1, freq='Sync')")
    big.write("big.py", LINES + "class Foo:\n    pass\n")
    assert "gone" not in "".join(event.delta for event in big.tick() if isinstance(event, NodeChanged))
    big.tick(big.prepared("v", _prepared(), "parse", "outline"))
    assert big.get("v").place.line == 36_000
    big.write("big.py", LINES)
    big.tick()
    big.tick(big.prepared("v", _prepared("Bar", 3), "parse", "outline"))
    assert "(Foo is gone)" in big.get("v").title


def test_a_group_shows_what_was_prepared_for_its_members(big: Desk) -> None:
    big.run("v = view('big.py', freq='Sync'); g = group(v, lod=1)")
    assert ROUGHLY in big.run("show(g)").displays[0].text
    big.tick(big.prepared("v", _prepared(), "parse", "outline"))
    assert ROUGHLY not in big.run("show(g)").displays[0].text


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
    with pytest.raises(ValueError, match="inside a later one"):
        unpacked(packed(Outline(tier="tree-sitter", symbols=(symbol,)), 1_000))


def test_an_outline_of_very_many_imports_does_without_them() -> None:
    outline = Outline(tier="tree-sitter", imports=tuple(f"module_{number}" for number in range(900)))
    assert unpacked(packed(outline, 1_000)) == Outline(tier="tree-sitter", complete=False)
