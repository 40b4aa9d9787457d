"""The tier of an outline is recorded once, and used again in a re-run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.files.outline.fallbacks import outline_by_indentation
from engine.files.outline.model import Outline, Tier
from engine.files.outlines import Outlines
from engine.files.revision import decoded, from_text
from engine.log.events.nodes import OutlineMade
from engine.runtime.worker.handles.states import BoardReport
from tests.support.boards import Desk

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


def test_outlines_for_ticks_and_tails_are_recorded_with_the_next_step(desk: Desk) -> None:
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


def test_a_failed_tier_is_recorded_again(outliner: _Outliner) -> None:
    class Failing(_Outliner):
        def outline(
            self, text: Callable[[], bytes], *, digest: str, path: str, tier: Tier | None = None, **_: object
        ) -> Outline:
            return outline_by_indentation(text())

    outlines = Outlines(Failing())
    revision = from_text(_TEXT)
    outlines.know({revision.digest: "tree-sitter"})
    outlines.settle()
    for _ in range(2):
        assert outlines.of(revision, "a.py").tier == "indentation"
    assert outlines.take() == (OutlineMade(digest=revision.digest, tier="indentation"),)


def test_what_has_no_text_is_not_outlined(desk: Desk, outliner: _Outliner) -> None:
    desk.write("a.bin", bytes(99))
    desk.run("a = view('a.bin', lod=1); b = view('missing', lod=2)")
    assert outliner.asked == []
