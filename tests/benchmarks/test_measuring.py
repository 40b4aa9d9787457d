"""How benchmarks measure: taking turns, with a warm-up, and through programs that run in other interpreters."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pytest

from benchmarks.measuring import PROGRAMS, in_turns, programs, row, script


def test_subjects_take_turns_and_the_first_round_does_not_count() -> None:
    asked: list[str] = []

    def action(subject: str) -> float:
        asked.append(subject)
        return 100.0 if len(asked) <= 2 else float(len(asked))

    assert in_turns({"ours": "a", "before": "b"}, 3, action) == {"ours": 5.0, "before": 6.0}
    assert "".join(asked) == "abababab"


def test_row_has_the_ratio_to_the_old_figure_and_peers() -> None:
    found = row("turn", {"ours": 3.0, "before": 4.0, "bare": 1.0, "sdk": 9.0}, lambda value: f"{value:.0f} s")
    assert (found.ours, found.change, found.before, found.peer) == ("3 s", "0.75", "4 s", "bare 1 s, sdk 9 s")
    alone = row("turn", {"ours": 3.0}, lambda value: f"{value:.0f} s")
    assert (alone.ours, alone.change, alone.before, alone.peer) == ("3 s", "", "", "")


@pytest.mark.parametrize("kind", [pytest.param("engine", marks=pytest.mark.slow), "raw", "bare"])
def test_the_program_for_the_store_appends_and_opens_again(tmp_path: Path, kind: str) -> None:
    with programs({kind: (sys.executable, script("store.py"), kind, str(tmp_path / "events.db"))}) as started:
        program = started[kind]
        assert program.seconds("groups", 4, 5) > 0
        assert program.seconds("window", 4, 5) > 0
        assert program.seconds("fill", 150) > 0
        assert program.seconds("reopen") > 0


def test_the_program_for_the_view_performs_every_operation() -> None:
    with programs({"ours": (sys.executable, script("view.py"), "engine")}) as started:
        program = started["ours"]
        assert program.seconds("step", 240, 120) > 0
        assert program.seconds("rebuild", 240) > 0
        assert program.seconds("enforce", 240) > 0


def test_a_program_that_fails_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with (
        programs({"ours": (sys.executable, script("view.py"), "engine")}) as started,
        pytest.raises(RuntimeError, match="nonsense ended the program with 1"),
    ):
        started["ours"].seconds("nonsense")
    assert "KeyError: 'nonsense'" in capfd.readouterr().err


def test_programs_have_loaded_all_when_the_first_is_measured(tmp_path: Path) -> None:
    source = (
        f"import sys, time; sys.path.insert(0, {str(PROGRAMS)!r}); time.sleep(0.1); open('loaded', 'w').close()\n"
        "from serving import serve; serve({})"
    )
    with contextlib.chdir(tmp_path), programs({"slow": (sys.executable, "-c", source)}):
        assert (tmp_path / "loaded").exists()
