"""`grep` and `find`: what statements get."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.core.programs import CommandOutcome, CommandOutput
from engine.files.search import commands
from engine.log.redaction import Redactor
from engine.runtime.results import Matches, matches_of
from engine.session.tools import Workspace, search
from tests.support.searching import answer, files, outcome_of, program, workspace


def lines(found: dict[str, Any]) -> list[str]:
    return [f"{path}:{line}: {text}" for path, line, text, *_ in found["matches"]]


def test_grep_gives_the_lines_of_every_file_in_order(tmp_path: Path) -> None:
    files(tmp_path, {"b.py": "x\nfoo 1\n", "a/c.py": "foo 2\r\nFOO\nfoo 3", ".gitignore": "*.log\n", "x.log": "foo\n"})
    here = workspace(tmp_path)
    found = answer(here, "grep", pattern="foo")
    assert lines(found) == ["a/c.py:1: foo 2", "a/c.py:3: foo 3", "b.py:2: foo 1"]
    assert (found["more"], found["more_files"], found["notes"]) == (0, 0, ())
    assert lines(answer(here, "grep", pattern="foo", path="a")) == ["a/c.py:1: foo 2", "a/c.py:3: foo 3"]
    assert lines(answer(here, "grep", pattern="(?i)foo$", path="a/c.py")) == ["a/c.py:2: FOO"]
    assert lines(answer(here, "grep", pattern="2$")) == ["a/c.py:1: foo 2"]
    assert lines(answer(here, "grep", pattern="foo", path="x.log")) == ["x.log:1: foo"]
    assert lines(answer(here, "grep", pattern="-- nothing")) == []


def test_a_glob_chooses_among_what_the_ignore_files_leave(tmp_path: Path) -> None:
    files(tmp_path, {"a.py": "x", "src/b.py": "x", "src/c.ts": "x", "src/d.log": "x", ".h/e.py": "x", "[x]": "x"})
    files(tmp_path, {".gitignore": "*.log\n/dist\n", "dist/f.py": "x"})
    here = workspace(tmp_path)
    assert answer(here, "find", glob="*.py")["paths"] == [".h/e.py", "a.py", "src/b.py"]
    assert answer(here, "find", glob="src/*.{py,ts,log}")["paths"] == ["src/b.py", "src/c.ts"]
    assert answer(here, "find", glob="*.log")["paths"] == []
    assert answer(here, "find", glob="[[]x]")["paths"] == ["[x]"]
    assert answer(here, "find", glob="[ab]*")["paths"] == ["a.py", "src/b.py"]
    assert answer(here, "find", glob="*", path="src")["paths"] == ["src/b.py", "src/c.ts"]
    assert lines(answer(here, "grep", pattern="x", glob="src/**")) == ["src/b.py:1: x", "src/c.ts:1: x"]
    assert lines(answer(here, "grep", pattern="x", path="a.py", glob="*.ts")) == []


def test_glob_excludes_files_that_ignore_files_include_again(tmp_path: Path) -> None:
    files(tmp_path, {".gitignore": "*\n!*/\n!*.txt\n!*.py\n", "a.txt": "x", "b.py": "x"})
    assert answer(workspace(tmp_path), "find", glob="*.py")["paths"] == ["b.py"]
    assert lines(answer(workspace(tmp_path), "grep", pattern="x", glob="*.py")) == ["b.py:1: x"]


def test_lines_beside_a_match_come_with_it(tmp_path: Path) -> None:
    files(tmp_path, {"a": "".join(f"{n}\n" for n in range(1, 31)), "b": "5\n"})
    found = answer(workspace(tmp_path), "grep", pattern="^(1|5|6|30)$", context=2)
    assert found["matches"] == [
        ("a", 1, "1", [], ["2", "3"]),
        ("a", 5, "5", ["3", "4"], ["6", "7"]),
        ("a", 6, "6", ["4", "5"], ["7", "8"]),
        ("a", 30, "30", ["28", "29"], []),
        ("b", 1, "5", [], []),
    ]
    assert repr(matches_of(found)).splitlines() == [
        *("a:1: 1", "a-2- 2", "a-3- 3", "a-4- 4", "a:5: 5", "a:6: 6", "a-7- 7", "a-8- 8", "--"),
        *("a-28- 28", "a-29- 29", "a:30: 30", "b:1: 5"),
    ]


def test_binary_files_are_left_out_wherever_their_nul_is(tmp_path: Path) -> None:
    files(tmp_path, {
        "early": b"x\0\n", "late": b"x\n" * 60_000 + b"\0\n", "wide": "x é\n".encode("utf-16"),
        "bom": b"\xef\xbb\xbfx\n", "latin": b"x \xe9\n", "end": b"x",
    })  # fmt: skip
    here = workspace(tmp_path)
    assert lines(answer(here, "grep", pattern="^x")) == ["bom:1: x", "end:1: x", "latin:1: x \ufffd", "wide:1: x é"]
    with pytest.raises(ValueError, match="early is not text; read its bytes"):
        program(here, "grep", pattern="x", path="early")
    assert lines(answer(here, "grep", pattern="x", path="wide")) == ["wide:1: x é"]
    assert lines(answer(here, "grep", pattern="x", path="late")) == []


def test_long_lines_are_cut(tmp_path: Path) -> None:
    files(tmp_path, {"a.js": "é" * 3_000_000 + "needle" + "y" * 1_000_000 + "\nneedle\n"})
    made = program(workspace(tmp_path), "grep", pattern="needle")
    done = outcome_of(made.request)
    assert done.stdout.total < 20_000
    found = made.answer(done)
    assert isinstance(found, dict)
    (_, _, cut, _, _), (_, number, short, _, _) = found["matches"]
    assert cut == "é" * 399 + "…"
    assert (number, short) == (2, "needle")


def test_a_spelling_that_two_names_have_is_refused(tmp_path: Path) -> None:
    for name in (b"a\xff", b"a\xfe"):
        (Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))).write_text("")
    with pytest.raises(OSError, match=r"2 names in .* are shown as a\ufffd; rename one of them"):
        program(workspace(tmp_path), "grep", pattern="x", path="a\ufffd")
    with pytest.raises(FileNotFoundError):
        program(workspace(tmp_path), "grep", pattern="x", path="b\ufffd")


def test_a_bad_expression_is_refused_in_the_programs_own_sentence(tmp_path: Path) -> None:
    files(tmp_path, {"a": "x"})
    here = workspace(tmp_path)
    reasons = {
        "(": r"unclosed group, in the regular expression\n +.*\(",
        "(?=x)": "^look-around, including look-ahead and look-behind, is not supported, in the regular expression\n",
        r"\n": "not allowed in a regex",
    }
    for pattern, says in reasons.items():
        with pytest.raises(ValueError, match=says):
            answer(here, "grep", pattern=pattern)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"pattern": ""}, "an empty pattern matches every line"),
        ({"pattern": "a\0b"}, "cannot contain a NUL character or a newline"),
        ({"pattern": "a" * 10_001}, "a pattern may have at most 10000 characters; this one has 10001"),
        ({"pattern": "a", "context": 51}, "context=51 must be between 0 and 50"),
        ({"pattern": "a", "glob": "../*"}, "must stay below `path`"),
        ({"pattern": "a", "path": "a\0b"}, "NUL"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused_before_anything_runs(
    tmp_path: Path, arguments: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        program(workspace(tmp_path), "grep", **arguments)


@pytest.mark.parametrize("path", ["/etc", "..", "../other", "link", "link/x", "file", "~"])
@pytest.mark.parametrize("tool", ["grep", "find"])
def test_nothing_outside_the_workspace_is_searched(tmp_path: Path, tool: str, path: str) -> None:
    project = tmp_path / "project"
    files(tmp_path, {"project/a": "x", "other/x": "x"})
    (project / "link").symlink_to("../other")
    (project / "file").symlink_to("../other/x")
    arguments = {"pattern": "x"} if tool == "grep" else {"glob": "*"}
    with pytest.raises(PermissionError, match="outside the workspace"):
        program(workspace(project), tool, path=path, **arguments)


def test_paths_that_cannot_be_searched_are_the_operating_systems_errors(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    files(tmp_path, {"a": "x"})
    here = workspace(tmp_path)
    with pytest.raises(FileNotFoundError):
        program(here, "grep", pattern="x", path="none")
    with pytest.raises(OSError, match="a named pipe, not a regular file"):
        program(here, "grep", pattern="x", path="pipe")
    with pytest.raises(NotADirectoryError, match="a is a file; find\\(\\) searches a directory"):
        program(here, "find", glob="*", path="a")


def test_inner_link_and_additional_directory_are_searched(tmp_path: Path) -> None:
    files(tmp_path, {"project/src/a": "x", "more/b": "x", "project/c": "x"})
    (tmp_path / "project" / "link").symlink_to("src")
    (tmp_path / "alias").symlink_to("project")
    here = workspace(tmp_path / "alias", tmp_path / "more")
    assert answer(here, "find", glob="*", path="link")["paths"] == ["src/a"]
    assert answer(here, "find", glob="*")["paths"] == ["c", "src/a"]
    assert lines(answer(here, "grep", pattern="x", path=str(tmp_path / "more"))) == [f"{tmp_path}/more/b:1: x"]


def test_link_swapped_in_before_the_search_leads_nowhere(tmp_path: Path) -> None:
    files(tmp_path, {"project/src/a": "x", "secret/b": "x"})
    made = program(workspace(tmp_path / "project"), "grep", pattern="x", path="src")
    (tmp_path / "project" / "src").rename(tmp_path / "project" / "moved")
    (tmp_path / "project" / "src").symlink_to(tmp_path / "secret")
    outcome = outcome_of(made.request)
    assert outcome.stdout.head == b""
    with pytest.raises(FileNotFoundError, match="moved while the search began; search again"):
        made.answer(outcome)


def test_unreadable_places_are_named_and_the_rest_found(tmp_path: Path) -> None:
    files(tmp_path, {"a": "x", "locked/b": "x", "c": "x"})
    for each in (tmp_path, *tmp_path.parents[:2]):
        each.chmod(0o755)
    made = program(workspace(tmp_path), "grep", pattern="x")
    listing = program(workspace(tmp_path), "find", glob="*")
    for each, mode in (("locked", 0), ("c", 0)):
        (tmp_path / each).chmod(mode)
    nobody = 65_534 if os.getuid() == 0 else None
    try:
        found = made.answer(outcome_of(made.request, user=nobody))
        listed = listing.answer(outcome_of(listing.request, user=nobody))
    finally:
        (tmp_path / "locked").chmod(0o755)
    assert isinstance(found, dict)
    assert lines(found) == ["a:1: x"]
    (note,) = found["notes"]
    assert re.fullmatch(
        r"could not read 2 places: (?=.*c \(Permission denied\))(?=.*locked \(Permission denied\)).*", note
    )
    assert repr(matches_of(found)).endswith(f"a:1: x\n({note})")
    assert isinstance(listed, dict)
    assert listed["paths"] == ["a", "c"]
    assert listed["notes"] == ("could not read 1 place: locked (Permission denied)",)


def test_unreadable_place_is_no_error_in_the_expression(tmp_path: Path) -> None:
    made = program(workspace(tmp_path), "grep", pattern="x")
    said = (
        b"rg: ./locked: Permission denied (os error 13)\nrg: No files were searched, which means ripgrep probably ...\n"
    )
    found = made.answer(outcome(b"", said, code=2))
    assert isinstance(found, dict)
    assert found["notes"] == ("could not read 1 place: locked (Permission denied)",)


def test_a_place_whose_name_ends_in_a_newline_is_searched(tmp_path: Path) -> None:
    files(tmp_path, {"odd\n/a": "x"})
    made = program(workspace(tmp_path), "grep", pattern="x", path="odd\n")
    found = made.answer(outcome_of(made.request))
    assert isinstance(found, dict)
    assert lines(found) == ["odd\n/a:1: x"]


@pytest.mark.parametrize(("tool", "arguments"), [("grep", {"pattern": "x"}), ("find", {"glob": "*"})])
def test_without_ripgrep_a_search_says_what_to_install(tmp_path: Path, tool: str, arguments: dict[str, str]) -> None:
    with pytest.raises(OSError, match=f"^ripgrep is missing; {re.escape(commands.INSTALL)}$"):
        program(workspace(tmp_path, ripgrep=None), tool, **arguments)


def test_rules_above_count_from_the_top(tmp_path: Path) -> None:
    # Each directory has rules; those of `home` are another's.
    rules = {".gitignore": "*.log\nlocal/\n/src/deep/c.txt\n", ".ignore": "*.tmp\n", "src/.gitignore": "!kept.log\n"}
    names = ("a.py", "a.log", "kept.log", "a.tmp", "deep/local/b.py", "deep/c.txt", "deep/d.txt")
    files(tmp_path, {"home/.ignore": "*.py\n", "home/repo/.git/HEAD": ""})
    files(tmp_path / "home" / "repo", rules | {f"src/{name}": "x" for name in names})
    here = workspace(tmp_path / "home" / "repo")
    left = ["src/a.py", "src/deep/d.txt", "src/kept.log"]
    assert answer(here, "find", glob="[!.]*", path="src")["paths"] == left
    assert lines(answer(here, "grep", pattern="x", path="src")) == [f"{path}:1: x" for path in left]
    said = (commands.ALL_FOUND_LEFT_OUT,)
    assert answer(here, "find", glob="*.tmp", path="src")["notes"] == said
    assert answer(here, "grep", pattern="x", path="src", glob="c.txt")["notes"] == said
    assert answer(here, "find", glob="*.rs", path="src")["notes"] == ()


def outcome(text: bytes = b"", said: bytes = b"", **fields: Any) -> CommandOutcome:
    streams = {"stdout": CommandOutput(head=text, total=len(text)), "stderr": CommandOutput(head=said, total=len(said))}
    return CommandOutcome(**streams, **fields)


def test_more_matches_and_paths_than_are_kept_are_counted(tmp_path: Path) -> None:
    here = workspace(tmp_path)
    made = program(here, "grep", pattern="x")
    text = b"\n".join(b"./f%04d\0" % n + b"".join(b"%d:x\n" % line for line in range(1, 11)) for n in range(600))
    found = made.answer(outcome(text, code=0))
    assert isinstance(found, dict)
    assert (len(found["matches"]), found["more"], found["more_files"]) == (search.MAX_MATCHES, 1_000, 100)
    assert repr(matches_of(found)).splitlines()[-1].startswith("... ")
    made = program(here, "find", glob="*")
    listed = made.answer(outcome(b"".join(b"./%06d\0" % n for n in range(search.MAX_PATHS + 7)), code=0))
    assert isinstance(listed, dict)
    assert (len(listed["paths"]), listed["more"]) == (search.MAX_PATHS, 7)


def test_answer_is_bounded_however_long_lines_and_names_are(tmp_path: Path) -> None:
    here = workspace(tmp_path)
    made = program(here, "grep", pattern="x", context=50)
    rows = b"".join(b"%d:%s\n" % (line, b"x" * 500) for line in range(1, 1_000))
    found = made.answer(outcome(b"./a\0" + rows + b"\n./b\0" + rows, code=0))
    assert isinstance(found, dict)
    assert sum(len(line) for match in found["matches"] for line in (match[2], *match[3], *match[4])) < 2_100_000
    assert (len(found["matches"]) + found["more"], found["more_files"]) == (1_998, 2)
    assert len({match[0] for match in found["matches"]}) == 1, "the first file has taken all of the room"
    made = program(here, "find", glob="*")
    listed = made.answer(outcome(b"".join(b"./%s%05d\0" % (b"d/" * 1_000, n) for n in range(3_000)), code=0))
    assert isinstance(listed, dict)
    assert sum(map(len, listed["paths"])) <= search.MAX_CHARS
    assert len(listed["paths"]) + listed["more"] == 3_000


def test_name_that_begins_like_a_home_is_escaped(tmp_path: Path) -> None:
    files(tmp_path, {"~": "x", "~root/a": "x"})
    here = workspace(tmp_path)
    assert answer(here, "find", glob="*")["paths"] == ["./~", "./~root/a"]
    assert lines(answer(here, "grep", pattern="x", path="./~")) == ["./~:1: x"]


def test_a_place_that_ignore_files_leave_out_whole_says_so(tmp_path: Path) -> None:
    files(tmp_path, {".venv/.gitignore": "*\n", ".venv/lib/a.py": "x", "src/b.py": "x", "src/c.log": "x"})
    files(tmp_path, {".gitignore": "*.log\n"})
    here = workspace(tmp_path)
    said = ("ignore files, such as .gitignore, exclude all files here; name one of them, or use bash()",)
    assert answer(here, "grep", pattern="x", path=".venv/lib")["notes"] == said
    assert answer(here, "find", glob="*.py", path=".venv/lib")["notes"] == said
    assert lines(answer(here, "grep", pattern="x", path=".venv/lib/a.py")) == [".venv/lib/a.py:1: x"]
    for nothing in (
        {"pattern": "y", "path": "src"},
        {"pattern": "x", "path": "src", "glob": "*.log"},
        {"pattern": "y"},
    ):
        found = answer(here, "grep", **nothing)
        assert (found["matches"], found["notes"]) == ([], ())


def test_search_ended_early_says_so_and_gives_whole_lines(tmp_path: Path) -> None:
    made = program(workspace(tmp_path), "grep", pattern="x")
    found = made.answer(outcome(b"./a\x001:x\n2:x cut o", stopped=True))
    assert isinstance(found, dict)
    assert lines(found) == ["a:1: x"]
    assert found["notes"][0].startswith("the search stopped after 1 matching line in 1 file; narrow the path")
    assert made.request.stop_at == commands.MAX_OUTPUT


def test_the_users_own_configuration_of_ripgrep_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path, {"project/a": "x\ny\n", "config": "--invert-match\n--max-count=1\n"})
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "config"))
    assert lines(answer(workspace(tmp_path / "project"), "grep", pattern="x")) == ["a:1: x"]


def test_a_search_that_ends_otherwise_says_how(tmp_path: Path) -> None:
    made = program(workspace(tmp_path), "grep", pattern="x")
    with pytest.raises(OSError, match="the search ended by signal 9; out of memory; name a narrower path"):
        made.answer(outcome(signal=9, reason="out of memory"))
    with pytest.raises(OSError, match="ended with code 127; /bin/sh: 1: exec: rg: not found"):
        made.answer(outcome(said=b"/bin/sh: 1: exec: rg: not found\n", code=127))


def test_a_search_of_nothing_is_no_matches(tmp_path: Path) -> None:
    assert repr(Matches([])) == "no matches"
    assert answer(workspace(tmp_path), "find", glob="*") == {"paths": [], "more": 0, "notes": ()}


@pytest.mark.parametrize("name", ["a.txt", "my notes.txt", "中文 文件.txt", "d/" + "x" * 200 + "/a b"])
def test_matches_have_no_secret_on_several_lines(tmp_path: Path, name: str) -> None:
    key = "sk-proj-Zq7RkW3xYb9TfLm2PcVn5JhGdS8aEuQo1iXtBy4w"
    wrapped = "\n".join(key[at : at + 12] for at in range(0, len(key), 12))
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    files(tmp_path, {name: f"KEY:\n{wrapped}\nend\n"})
    here = workspace(tmp_path)
    here.hide = Redactor([key]).hidden_lines
    for context in (0, 3):
        found = answer(here, "grep", pattern=".", context=context)
        assert [text for _, _, text, *_ in found["matches"]] == ["KEY:", *["***"] * 4, "end"]
        assert "Zq7RkW3x" not in str(found)


KEY = "sk-proj-Zq7RkW3xYb9TfLm2PcVn5JhGdS8aEuQo1iXtBy4w"
WRAPPED = "\n".join(KEY[at : at + 12] for at in range(0, len(KEY), 12))


def knowing(tmp_path: Path) -> Workspace:
    here = workspace(tmp_path)
    here.hide = Redactor([KEY]).hidden_lines
    return here


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("pattern", ["Zq7R", "W3xY|iXtB", "JhGd|KEY"])
def test_a_search_that_finds_some_lines_of_a_secret_shows_none_of_them(tmp_path: Path, pattern: str, ends: str) -> None:
    files(tmp_path, {"a": f"KEY:\n{WRAPPED}\nend\n".replace("\n", ends), "b": "SOME Zq7R of another\n"})
    found = answer(knowing(tmp_path), "grep", pattern=pattern)
    texts = {text for _, _, text, *_ in found["matches"]}
    assert texts <= {"KEY:", "***", "SOME Zq7R of another"}
    assert "***" in texts


LONG_KEY = "".join(f"{n:02d}Zq+k/W{chr(97 + n)}xY" for n in range(24))


@pytest.mark.parametrize(
    ("before", "spelled"),
    [
        ("+", str),
        ("-", str),
        ("12:", str),
        ("notes/a.txt:7:", str),
        ("\x1b[32m", str),
        ("> ", str),
        ("", lambda line: line.replace("+", "%2B").replace("/", "%2F")),
    ],
)
def test_a_search_finds_no_part_of_a_secret_behind_marks(
    tmp_path: Path, before: str, spelled: Callable[[str], str]
) -> None:
    lines = [LONG_KEY[at : at + 40] for at in range(0, len(LONG_KEY), 40)]
    files(tmp_path, {"a": "KEY:\n" + "".join(f"{before}{spelled(line)}\n" for line in lines) + "end\n"})
    here, redactor = workspace(tmp_path), Redactor([LONG_KEY])
    here.hide = redactor.hidden_lines
    assert "Zq" not in "".join(redactor.hidden_lines((tmp_path / "a").read_text()).values())
    found = answer(here, "grep", pattern="05Zq|KEY:|end")
    assert len(found["matches"]) == 3
    assert "Zq" not in str(found)


@pytest.mark.parametrize("word", ["nothing", KEY[:12], KEY[5:17]], ids=["nothing", "beginning", "part"])
def test_what_a_search_reads_does_not_depend_on_parts_of_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """Else the time of a search would tell whether a guess is a part."""
    files(tmp_path, {"a": f"x {word}\n", "b": "x\n" * 10, "large": "x\n" * (1 << 20)})
    read: list[str] = []

    def hidden(text: str) -> dict[int, str]:
        read.append(text)
        return {}

    here = workspace(tmp_path)
    here.hide = hidden
    answer(here, "grep", pattern="x")
    assert [len(text) for text in read][1::2] == [len(f"x {word}\n"), 20, 0]
