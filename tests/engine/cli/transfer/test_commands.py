"""`rewindow import` of other programs' conversations."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from engine.cli.transfer.commands import ImportOptions, import_foreign
from engine.core.errors import InvalidRequestError
from engine.log.store.memory import MemoryStore
from tests.support.commands import Home
from tests.support.foreign import DATA
from tests.support.stores import CountingClock

TITLES = {
    "openai.json": "OpenAI chat completions",
    "anthropic.json": "Anthropic messages",
    "openhands.jsonl": "OpenHands events",
}


def events(home: Home, session: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in home.run("show", session, "--events").stdout.splitlines()]


@pytest.mark.parametrize("name", TITLES)
def test_a_conversation_becomes_a_session(empty: Home, name: str) -> None:
    shutil.copy(DATA / name, empty.path / name)
    done = empty.run("import", name)
    assert (done.returncode, done.stderr) == (0, "")
    head, counts, prompt, *rest = done.stdout.splitlines()
    session = head.split()[0]
    assert head.endswith(f", from {TITLES[name]}")
    assert counts.startswith("imported: ")
    assert prompt.startswith("system prompt: ")
    assert [line.split(":")[0] for line in rest] == ["turned into notes", "ignored"]
    (listed,) = map(json.loads, empty.run("sessions", "--jsonl").stdout.splitlines())
    assert (listed["session_id"], listed["cwd"]) == (session, str(empty.path.resolve()))
    assert listed["title"]
    first = events(empty, session)[0]
    assert (first["kind"], first["cwd"], first["seq"]) == ("session_opened", str(empty.path.resolve()), 0)


def test_an_import_says_what_it_made_of_everything(empty: Home) -> None:
    done = empty.run("import", str(DATA / "openai.json"), "--as", "ses_x")
    assert done.stdout.splitlines()[1:] == [
        "imported: agent texts 3, tool calls 3, tool results 3, user messages 2, reasonings 1",
        "system prompt: 24 characters, kept as an attachment of the first message; the agent has its own instructions",
        "turned into notes: image parts 1, audio parts 1, arguments that are not a JSON object 1,"
        " repeated tool call ids, renamed 1",
        "ignored: name fields 1",
    ]
    shown = empty.run("show", "ses_x").stdout
    assert 'call> ls {"path":"src"}\n\n' in shown
    assert "\n    main.py\n" in shown


def test_what_a_model_will_not_see_is_one_warning(empty: Home) -> None:
    done = empty.run("import", str(DATA / "openhands-torn.jsonl"))
    assert done.returncode == 0
    assert done.stderr == (
        "warning: 4 events were left out of the View, or moved, to keep it well-formed: ToolLoopAtomicity 4;"
        " they stay in the log, but models do not see them\n"
    )


def test_the_directory_and_the_id_can_be_given(empty: Home) -> None:
    (empty.path / "work").mkdir()
    arguments = ["import", str(DATA / "openai.json"), "--cwd", "work", "--as", "ses_mine"]
    assert empty.run(*arguments).returncode == 0
    (listed,) = map(json.loads, empty.run("sessions", "--jsonl").stdout.splitlines())
    assert (listed["session_id"], listed["cwd"]) == ("ses_mine", str((empty.path / "work").resolve()))
    again = empty.run(*arguments)
    assert (again.returncode, again.stdout, again.stderr.count("\n"), "ses_mine" in again.stderr) == (1, "", 1, True)
    nowhere = empty.run("import", str(DATA / "openai.json"), "--cwd", "missing")
    assert (nowhere.returncode, nowhere.stderr) == (1, "rewindow: missing is not a directory\n")


@pytest.mark.parametrize(
    ("data", "options", "reason"),
    [
        (
            b'[{"role":"user","content":"a"},{"content":"b"}]',
            [],
            "f, item 2: the message has no role; known roles are ",
        ),
        (b'{"role":"user","content":"a"}\n{"role":\n', [], "f, line 3: this is not JSON: Expecting value"),
        (b'[{"role":"user","content":"a"}]', ["--format", "openhands"], "f, item 1: `kind`, the class of an "),
        (b'[{"role":"user","content":"a"}]', ["--format", "rewindow"], "f, line 1: the line ends too early"),
        (b'{"format":"rewindow-session","version":1}\n', ["--cwd", "."], "an exported session has its own directory"),
        (b"\x89PNG\r\n", [], "f: byte 0 is not valid utf-8: invalid start byte"),
    ],
)
def test_what_cannot_be_imported_is_said_with_its_place(
    empty: Home, data: bytes, options: list[str], reason: str
) -> None:
    (empty.path / "f").write_bytes(data)
    done = empty.run("import", "f", *options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith(f"rewindow: {reason}")
    assert empty.run("sessions", "--jsonl").stdout == ""


def test_a_format_that_there_is_not_is_wrong_usage(empty: Home) -> None:
    done = empty.run("import", "f", "--format", "word")
    assert done.returncode == 2
    assert "rewindow, openhands, anthropic, openai" in " ".join(done.stderr.replace("│", " ").split())


def test_a_format_that_is_given_is_not_guessed(empty: Home) -> None:
    (empty.path / "f").write_text('[{"role":"user","content":"a"}]')
    assert empty.run("import", "f", "--format", "anthropic").stdout.splitlines()[0].endswith("Anthropic messages")
    assert empty.run("import", "f").stdout.splitlines()[0].endswith("OpenAI chat completions")


def test_a_conversation_that_is_too_large_is_refused() -> None:
    store, data = MemoryStore(CountingClock()), b'[{"role":"user","content":"a"}]'
    with pytest.raises(InvalidRequestError, match="it has more than 30 B"):
        import_foreign(store, io.BytesIO(data), "it", ImportOptions("", "", ""), largest=len(data) - 1)
    assert store.rows() == []
    import_foreign(store, io.BytesIO(data), "it", ImportOptions("", "", ""), largest=len(data))
    assert len(store.rows()) == 1


def test_secrets_of_the_environment_do_not_enter_the_store(empty: Home) -> None:
    secret = "sk-very-secret-value-0123456789"
    (empty.path / "f").write_text(json.dumps([{"role": "user", "content": f"use {secret}"}]))
    assert empty.run("import", "f", "--as", "ses_x", MY_API_KEY=secret).returncode == 0
    assert events(empty, "ses_x")[1]["text"] == "use ***"
    assert json.loads(empty.run("sessions", "--jsonl").stdout)["title"] == "use ***"
    for path in Path(empty.state).rglob("*"):
        assert path.is_dir() or secret.encode() not in path.read_bytes()


@pytest.mark.parametrize("lines", [[{"kind": "X", "source": "agent"}], [{"kind": "statement_recorded", "source": "1"}]])
def test_file_without_any_conversation_is_refused(lines: list[Any], empty: Home) -> None:
    (empty.path / "it").write_text("\n".join(map(json.dumps, lines)))
    done = empty.run("import", "it")
    assert (done.returncode, done.stderr) == (1, "rewindow: it contains no conversation\n")
    assert empty.run("sessions", "--jsonl").stdout == ""
