"""Values that tools return: their text for people and models."""

from __future__ import annotations

import pickle

import pytest

from engine.runtime.results import MATCHES_CHARS, SHOWN_CHARS, Completed, Match, Matches, Paths, shown_value, value_of

PLAIN = {"code": 0, "output": "", "truncated": False, "timed_out": False, "signal": None, "reason": "", "seconds": 1.5}


def completed(**fields: object) -> Completed:
    return value_of("bash", PLAIN | fields)


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({}, "(no output)"),
        ({"output": "one\ntwo\n"}, "one\ntwo"),
        ({"output": "no\n", "code": 3}, "no\n(exit code 3)"),
        ({"code": 1}, "exit code 1"),
        ({"output": "half", "code": None, "signal": "SIGSEGV"}, "half\n(killed by SIGSEGV)"),
        (
            {"output": "x\n", "code": None, "timed_out": True, "seconds": 120.51},
            "x\n(timed out after 121 s; the command and all its processes were ended)",
        ),
        ({"code": None, "reason": "the session was closed"}, "ended: the session was closed"),
    ],
)
def test_output_is_shown_with_the_failure_in_a_last_line(fields: dict[str, object], shown: str) -> None:
    assert repr(completed(**fields)) == shown
    assert str(completed(**fields)) == shown


def test_middle_of_a_long_output_is_counted() -> None:
    value = completed(output="a" * 50_000 + "z" * 50_000, code=2)
    shown = repr(value)
    assert shown.startswith("aaa")
    assert "\n... 96000 characters left out ...\n" in shown
    assert shown.endswith("z\n(exit code 2)")
    assert len(shown) < SHOWN_CHARS + 100
    assert len(value.output) == 100_000


def test_the_host_shows_it_as_a_statement_does() -> None:
    assert shown_value("bash", PLAIN | {"output": "text"}) == "text"


def many(count: int) -> list[Match]:
    return [Match(f"src/file_{number // 10}.py", number, "x" * 300) for number in range(1, count + 1)]


def test_matches_show_their_beginning_and_count_the_rest() -> None:
    matches = Matches(many(1_000), more=500, more_files=7, notes=("could not read 1 place: a (Permission denied)",))
    *shown, rest, note = repr(matches).splitlines()
    assert len(repr(matches)) < MATCHES_CHARS + 200
    assert shown[0] == "src/file_0.py:1: " + "x" * 199 + "…"
    hidden = len(matches) - len(shown)
    files = len({match.path for match in matches[len(shown) :]}) + 7
    assert rest == f"... {hidden + 500} more matches in {files} files"
    assert note == "(could not read 1 place: a (Permission denied))"
    assert [match.line for match in matches] == list(range(1, 1_001))
    assert (len(matches), matches[-1].line, matches.places[0]) == (1_000, 1_000, ("src/file_0.py", 1))
    assert repr(matches[:1]) == str(matches[0])
    assert repr(matches[1:1]) == "no matches"


def test_one_match_is_shown_despite_long_context() -> None:
    match = Match("a", 60, "here", before=tuple("x" * 200 for _ in range(50)))
    assert repr(Matches([match])).splitlines()[-1] == "a:60: here"
    assert repr(Matches([match], more=1, more_files=1)).splitlines()[-1] == "... 1 more match in 1 file"


def test_control_characters_in_names_and_lines_are_escaped() -> None:
    assert repr(Matches([Match("a\nb", 1, "\x1b[31mred\tx")])) == "a\\nb:1: \\x1b[31mred\tx"
    assert repr(Paths(["a\nb", "\u202ec"])) == "a\\nb\n\\u202ec"


def test_paths_show_their_beginning_and_count_the_rest() -> None:
    paths = Paths([f"src/file_{number}.py" for number in range(1_000)], more=5, notes=("a note",))
    *shown, rest, note = repr(paths).splitlines()
    assert rest == f"... {1_005 - len(shown)} more files"
    assert (note, shown[0], paths[999], len(paths)) == ("(a note)", "src/file_0.py", "src/file_999.py", 1_000)
    assert repr(paths[:2]) == "src/file_0.py\nsrc/file_1.py"
    assert repr(Paths([])) == "no files"
    assert paths.places[0] == ("src/file_0.py", None)


def test_both_survive_what_keeps_values() -> None:
    matches = Matches(many(3), more=2, more_files=1, notes=("a",))
    paths = Paths(["a"], more=1, notes=("b",))
    again, paths_again = pickle.loads(pickle.dumps((matches, paths)))
    assert (repr(again), again.more, again.notes) == (repr(matches), 2, ("a",))
    assert (repr(paths_again), paths_again.more) == (repr(paths), 1)
