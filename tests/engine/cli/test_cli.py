"""The commands for people: what they print, how they end, and what they do to the store.

Each command runs once as a process of its own, most of them where only a process can show the thing.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import closing
from pathlib import Path

import pytest
import typer

from engine.cli.commands import number_from
from engine.cli.output import size
from engine.cli.sessions import NO_ARCHIVED, seconds_of
from engine.core.ids import SessionId
from engine.log.store.schema import digest_of
from tests.support.archives import answered, values_kept
from tests.support.commands import Home
from tests.support.stores import A, B, Recorder, begun, message, row

ESCAPE = "\x1b"


def bytes_of(home: Home, session_id: str) -> int:
    """The size of a session as its store counts it."""
    store = home.store()
    found = store.row(SessionId(session_id)).size
    store.close()
    return found


def ids(home: Home) -> set[str]:
    store = home.store()
    found = {row.session_id for row in store.rows()}
    store.close()
    return found


def test_sessions_are_listed_with_size_and_title(home: Home) -> None:
    done = home.run("sessions")
    assert (done.returncode, done.stderr) == (0, "")
    head, *lines = done.stdout.splitlines()
    assert head.split() == ["session", "last", "used", "events", "size", "past", "values", "directory", "title"]
    assert [line.split()[0] for line in lines] == [B, A, "other"]
    assert "red [bold]title\\x1b[0m" in lines[0]
    assert ESCAPE not in done.stdout
    assert lines[2].split()[3:6] == ["3", *size(bytes_of(home, "other")).split()]


def test_sessions_are_listed_with_what_their_past_takes(home: Home) -> None:
    with closing(home.store()) as store:
        noise = [os.urandom(length) for length in (2000, 3000)]
        answer, value = map(digest_of, noise)
        store.add(row("ses_past"), [message(0), noise[0], answered(1, answer), noise[1], values_kept(2, value)])
    columns = [home.run_on_a_terminal("sessions", COLUMNS=cells)[1].decode().split()[:9] for cells in ("109", "110")]
    assert [("past" in column, "title" in column) for column in columns] == [(False, True), (True, True)]
    (line,) = (each for each in home.run("sessions").stdout.splitlines() if each.startswith("ses_past"))
    assert line.split()[6:10] == ["5.0", "kB", "3.0", "kB"]
    rows = {each["session_id"]: each for each in map(json.loads, home.run("sessions", "--jsonl").stdout.splitlines())}
    found = rows["ses_past"]
    assert 5000 <= found["past_size"] <= 5100
    assert 3000 <= found["values_size"] <= 3050
    assert (rows[B]["past_size"], rows[B]["values_size"]) == (0, 0)
    assert 0 < rows[A]["past_size"] < rows[A]["size"]
    assert rows[A]["values_size"] == 0


def test_sessions_of_one_directory(home: Home) -> None:
    (home.path / "link").symlink_to("/work")
    assert home.run("sessions", "--cwd", "link").stdout == home.run("sessions", "--cwd", "/work").stdout
    assert [line.split()[0] for line in home.run("sessions", "--cwd", "/home").stdout.splitlines()[1:]] == [B]
    assert home.run("sessions", "--cwd", "/work/").stdout.count("\n") == 3
    assert home.run("sessions", "--cwd", "/nowhere").stdout == "No sessions in /nowhere.\n"


def test_archived_sessions_are_listed_apart(home: Home) -> None:
    assert home.run("sessions", "--archived").stdout == f"{NO_ARCHIVED}\n"
    with closing(home.store()) as store:
        store.archive(SessionId(A), True)
    assert [line.split()[0] for line in home.run("sessions").stdout.splitlines()[1:]] == [B, "other"]
    listed = json.loads(home.run("sessions", "--archived", "--json").stdout)
    assert [(row["session_id"], row["archived"]) for row in listed] == [(A, True)]
    assert home.run("show", A).returncode == 0


def test_without_sessions_the_list_says_what_to_do(empty: Home) -> None:
    assert "rewindow-acp" in empty.run("sessions").stdout
    assert empty.run("sessions", "--json").stdout == "[]\n"
    assert empty.run("sessions", "--jsonl").stdout == ""


def test_an_export_is_imported_elsewhere_and_equals_it(home: Home, tmp_path: Path) -> None:
    data = home.run_bytes("export", "ses_a").stdout
    other = Home(tmp_path / "elsewhere")
    other.path.mkdir()
    done = other.run("import", "-", stdin=data)
    grown = size(bytes_of(other, "ses_a"))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"ses_a  3 events, {grown}\n", "")
    *lines, said = other.run_bytes("export", "ses_a", "--output", "-").stdout.splitlines()
    assert lines[1:] == data.splitlines()[1:]
    assert b'"by":"import"' in said
    (tmp_path / "file").write_bytes(data)
    again = other.run("import", str(tmp_path / "file"))
    assert (again.returncode, again.stderr.count("\n"), "already" in again.stderr) == (1, 1, True)
    assert other.run("import", str(tmp_path / "file"), "--as", "ses_second").returncode == 0
    assert ids(other) == {"ses_a", "ses_second"}


def test_an_export_to_a_file_is_private_and_whole(home: Home) -> None:
    path = home.path / "out.jsonl"
    path.write_text("older")
    refused = home.run("export", "ses_a", "-o", str(path))
    assert (refused.returncode, refused.stderr.count("\n"), path.read_text()) == (1, 1, "older")
    assert "already exists; --force overwrites it" in refused.stderr
    assert home.run("export", "ses_a", "-o", str(path), "--force").returncode == 0
    assert path.read_bytes() == home.run_bytes("export", "ses_a").stdout
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(os.listdir(home.path)) == ["out.jsonl", "state"]


def test_export_to_dev_stdout_goes_into_its_pipe(home: Home) -> None:
    done = home.run_as_process("export", "ses_a", "--output", "/dev/stdout")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.encode() == home.run_bytes("export", "ses_a").stdout


FULL = {"sessions": "no", "show ses_a": "no", "export ses_a": "cannot write standard output: No"}


@pytest.mark.parametrize("command", FULL)
def test_a_full_disk_ends_any_output_with_a_sentence(home: Home, command: str) -> None:
    with open("/dev/full", "wb") as full:
        code, errors = home.run_into(full.fileno(), *command.split())
    assert (code, errors.decode()) == (1, f"rewindow: {FULL[command]} space left on device\n")


def test_export_to_a_full_device_ends_with_a_sentence(home: Home) -> None:
    done = home.run("export", "ses_a", "--output", "/dev/full")
    assert (done.returncode, done.stderr) == (1, "rewindow: cannot write /dev/full: No space left on device\n")


def test_export_without_room_leaves_the_old_file(empty: Home) -> None:
    store = empty.store()
    begun(store, "ses_long", events=3000, text="x" * 100)
    store.close()
    (empty.path / "out").write_text("older")
    limited = ["sh", "-c", 'ulimit -f 100 && exec "$@"', "sh"]
    done = empty.run_as_process("export", "ses_long", "-f", "-o", "out", prefix=limited)
    assert (done.returncode, done.stderr) == (1, f"rewindow: cannot write {empty.path}/out: File too large\n")
    assert (empty.path / "out").read_text() == "older"
    assert sorted(os.listdir(empty.path)) == ["out", "state"]


def test_an_export_into_nowhere_leaves_nothing(home: Home) -> None:
    done = home.run("export", "ses_a", "-o", str(home.path / "missing" / "file"))
    assert (done.returncode, done.stderr.count("\n"), "No such file" in done.stderr) == (1, 1, True)
    assert os.listdir(home.path) == ["state"]


@pytest.fixture
def long(empty: Home) -> Home:
    """A session that no buffer takes whole."""
    store = empty.store()
    store.add(row("ses_long"), [message(seq, "x" * 100) for seq in range(3000)])
    store.close()
    return empty


LONG = [["show", "ses_long"], ["show", "ses_long", "--events"], ["export", "ses_long"]]


@pytest.mark.parametrize("arguments", LONG, ids=" ".join)
def test_a_reader_that_left_is_no_error(long: Home, arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    assert long.run_into(writer, *arguments) == (0, b"")
    os.close(writer)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "standard input is empty"),
        (b"\xff\xfe\0\0", "standard input is empty"),
        (b"\xff\xfe\n", "standard input: byte 2 is not valid utf-16-le: truncated data"),
        (b"{}", "standard input is not a known conversation; known are OpenHands events"),
        (
            b'{"format":"rewindow-session","version":99}\n',
            "standard input, line 1: version 99 of the format is unknown",
        ),
    ],
)
def test_a_file_that_is_no_export_is_refused(home: Home, data: bytes, reason: str) -> None:
    before = ids(home)
    done = home.run("import", "-", stdin=data)
    assert done.returncode == 1
    assert done.stderr.startswith(f"rewindow: {reason}")
    assert done.stderr.count("\n") == 1
    assert ids(home) == before


def test_missing_file_or_directory_is_refused(home: Home) -> None:
    for name in ("missing", "."):
        done = home.run("import", name)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert f"cannot read {name}: " in done.stderr


@pytest.mark.parametrize("command", ["show", "export", "delete"])
def test_ids_that_are_unknown_or_ambiguous_are_refused(home: Home, command: str) -> None:
    options = ["--yes"] if command == "delete" else []
    unknown, ambiguous = home.run(command, "nobody", *options), home.run(command, "ses_", *options)
    assert (unknown.returncode, ambiguous.returncode) == (1, 1)
    assert unknown.stderr == "rewindow: no session nobody; `rewindow sessions` lists the sessions\n"
    assert "'ses_' is the start of 2 sessions: ses_b, ses_a; type more of the id\n" in ambiguous.stderr
    assert (unknown.stdout, ambiguous.stdout) == ("", "")
    assert len(ids(home)) == 3


def test_delete_removes_nothing_if_one_name_is_wrong(home: Home) -> None:
    assert home.run("delete", "--yes", "oth", "nobody").returncode == 1
    assert len(ids(home)) == 3
    done = home.run("delete", "oth", "ses_a", "other", "--yes")
    assert (done.returncode, done.stdout) == (0, "deleted other\ndeleted ses_a\n")
    assert ids(home) == {B}


def test_delete_without_a_terminal_wants_to_be_told(home: Home) -> None:
    done = home.run("delete", "ses_a", stdin=b"y\n")
    assert done.returncode == 2
    assert "--yes deletes" in done.stderr
    assert len(ids(home)) == 3


@pytest.mark.parametrize(("answer", "code", "left"), [(b"y\n", 0, 2), (b"n\n", 1, 3), (b"\n", 1, 3), (b"\x04", 130, 3)])
def test_delete_asks_on_a_terminal(home: Home, answer: bytes, code: int, left: int) -> None:
    ended, seen = home.run_on_a_terminal("delete", "ses_a", typed=answer)
    assert (ended, len(ids(home))) == (code, left)
    assert b"ses_a  2 events" in seen
    assert b"[y/N]" in seen


def test_what_is_in_use_is_neither_deleted_nor_collected(home: Home) -> None:
    store = home.store()
    store.acquire("other", Recorder())
    done = home.run("delete", "--yes", "other", "ses_a")
    assert (done.returncode, done.stdout) == (1, "deleted ses_a\n")
    assert done.stderr == f"rewindow: session other is in use by process {os.getpid()}; close it there first\n"
    assert "0 sessions" in home.run("gc", "--older-than", "1w", "--dry-run").stdout
    collected = home.run_as_process("gc", "--older-than", "1w")
    assert collected.stdout.splitlines()[0] == "kept other, which is in use"
    assert store.row("other").events == 3
    store.close()


@pytest.mark.slow
def test_gc_deletes_what_is_old_and_first_says_what(home: Home) -> None:
    dry = home.run("gc", "--older-than", "1000w", "--dry-run")
    assert dry.stdout.splitlines() == ["would delete ses_a", "would delete other", dry.stdout.splitlines()[-1]]
    assert dry.stdout.endswith("; nothing was deleted\n")
    assert ids(home) == {A, B, "other"}
    done = home.run("gc", "--older-than", "12h")
    assert (done.returncode, done.stdout.splitlines()[:2]) == (0, ["deleted ses_a", "deleted other"])
    assert done.stdout.splitlines()[2].startswith("2 sessions deleted, ")
    assert ids(home) == {B}
    assert "  1 session, " in home.run("doctor").stdout


@pytest.mark.parametrize("age", ["", "3", "d", "0d", "-1d", "1.5d", "3x", "1D", "9999999d", "\u0661d"])
def test_an_age_that_is_none_is_refused(age: str) -> None:
    with pytest.raises(typer.BadParameter, match="12h, 30d or 8w"):
        seconds_of(age)


def test_an_age_that_is_none_is_wrong_usage(home: Home) -> None:
    done = home.run("gc", "--older-than=3x")
    assert done.returncode == 2
    assert "12h, 30d or 8w" in done.stderr
    assert len(ids(home)) == 3


def test_wrong_usage_ends_with_2(empty: Home) -> None:
    for arguments in (["gc"], ["export"], ["nonsense"], ["sessions", "--nonsense"], ["delete", "--yes"]):
        done = empty.run(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert "Usage" in done.stderr


def test_every_command_says_how_it_is_used(empty: Home) -> None:
    listed = empty.run("--help").stdout
    assert "..." not in listed.partition("Commands:")[2].partition("Examples:")[0], "a summary is cut off"
    for command in ("sessions", "show", "export", "import", "delete", "gc", "doctor"):
        assert f"  {command} " in listed
        assert empty.run(command, "--help").stdout.startswith("Usage: ")
    assert empty.run("-h").stdout == listed


def test_help_of_a_command_names_its_arguments_plainly(empty: Home) -> None:
    lines = empty.run("undo", "-h").stdout.splitlines()
    assert lines[0] == "Usage: rewindow undo [OPTIONS] SESSION [K]"
    assert [line.split()[0] for line in lines[5:7]] == ["SESSION", "K"]
    assert empty.run("delete", "-h").stdout.startswith("Usage: rewindow delete [OPTIONS] SESSION...\n")


@pytest.mark.parametrize("given", ["x", "0", "-1", "1.5", "٣", "9" * 5_000])
def test_a_number_that_is_none_is_refused_in_our_words(given: str) -> None:
    assert number_from(1)("3") == 3
    with pytest.raises(typer.BadParameter, match="must be a whole number, at least 1, not '"):
        number_from(1)(given)


def test_a_missing_argument_is_named_once(empty: Home) -> None:
    assert empty.run("rewind").stderr.endswith("\n\nError: Missing argument 'SESSION'.\n")
    assert "Invalid value for 'K': must be a whole number" in empty.run("undo", "s", "x").stderr


def test_usage_error_controls_no_terminal(home: Home) -> None:
    done = home.run("run", "a\x1b]52;c;aGk=\x07b")
    assert done.returncode == 2
    assert not {"\x1b", "\x07"} & set(done.stderr)
    assert "rewindow run -p 'a\\x1b]52" in done.stderr


def test_output_that_cannot_hold_every_character_is_escaped(home: Home) -> None:
    done = home.run_bytes("show", "ses_b", PYTHONIOENCODING="iso8859-7")
    assert (done.returncode, done.stderr, b"user> \\xe9" in done.stdout) == (0, b"", True)
