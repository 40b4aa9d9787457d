"""What a run of benchmarks keeps: its own suites, and those of others that it did not measure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from benchmarks.__main__ import RESULTS, main
from benchmarks.environments import OURS
from benchmarks.measuring import Setting
from benchmarks.report import Row, Suite, keep, load, markdown

Suites = dict[str, Callable[[Setting], Sequence[Row]]]


def suites(**figures: str) -> Suites:
    """Each finds one row with that figure and meets its bar."""
    return {
        name: lambda _, name=name, figure=figure: [Row(name=f"{name} row", ours=figure, bar="any", met=True)]
        for name, figure in figures.items()
    }


def figures(place: Path) -> dict[str, str]:
    return {name: suite.rows[0].ours for name, suite in load(place).items()}


def test_a_partial_run_keeps_what_other_suites_found(tmp_path: Path) -> None:
    assert main([], suites(acp="1 ms", store="2 ms", view="3 ms"), tmp_path) == 0
    assert main(["store"], suites(acp="7 ms", store="8 ms", view="9 ms"), tmp_path) == 0
    assert figures(tmp_path) == {"acp": "1 ms", "store": "8 ms", "view": "3 ms"}
    text = (tmp_path / "latest.md").read_text()
    assert [line for line in text.splitlines() if " ms " in line] == [
        "| acp row | 1 ms | any | yes |",
        "| store row | 8 ms | any | yes |",
        "| view row | 3 ms | any | yes |",
    ]


def test_each_suite_records_date_machine_and_commit(tmp_path: Path) -> None:
    earlier = Suite(measured="2026-01-02 03:04", commit="0123456", machine="another machine", rows=())
    keep(tmp_path, {"acp": earlier})
    main(["view"], suites(acp="1 ms", view="2 ms"), tmp_path)
    kept = load(tmp_path)
    assert kept["acp"] == earlier
    assert kept["view"].commit == OURS.commit
    assert kept["view"].measured > "2026"
    assert "Python 3" in kept["view"].machine
    for suite in kept.values():
        assert f"{suite.measured}, commit {suite.commit}; {suite.machine}." in markdown(kept)


def test_missed_bar_is_recorded_and_exits_with_1(tmp_path: Path) -> None:
    slow: Suites = {"acp": lambda _: [Row(name="turn", ours="9 ms", bar="<= 1 ms", met=False)]}
    assert main([], slow, tmp_path) == 1
    assert "| turn | 9 ms | <= 1 ms | **no** |" in (tmp_path / "latest.md").read_text()


def test_a_quick_look_keeps_nothing(tmp_path: Path) -> None:
    assert main(["--quick"], suites(acp="1 ms"), tmp_path) == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [["nonsense"], ["acp", "--against", "/nonexistent"]])
def test_wrong_usage_ends_with_2_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments, suites(acp="1 ms"), tmp_path)
    assert left.value.code == 2
    assert capsys.readouterr().out == ""
    assert not list(tmp_path.iterdir())


def test_what_is_kept_in_the_repository_can_be_read() -> None:
    assert (RESULTS / "latest.md").read_text() == markdown(load(RESULTS))


def test_new_figure_is_beside_the_old_after_their_ratio() -> None:
    suite = Suite(
        measured="now",
        commit="b",
        before="a",
        machine="m",
        rows=(Row(name="turn", ours="3 ms", change="0.75", before="4 ms", met=True),),
    )
    lines = markdown({"acp": suite}).splitlines()
    assert "now, commit b, beside a; m." in lines
    assert "| name | new/old | ours | old | met |" in lines
    assert "| turn | 0.75 | 3 ms | 4 ms | yes |" in lines
