"""The README's first screen: five sentences, each of which the product keeps, and two pictures."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from PIL import Image

from tests.support.commands import Home
from tests.support.memory import in_memory
from tests.support.stores import ROOT

LINES = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
FIRST = "\n".join(LINES[:25])
MOST_BYTES = 150_000


def sentences() -> list[str]:
    """The sentences of the first paragraph."""
    paragraph = " ".join(FIRST.split("\n\n")[1].split())
    return re.split(r"(?<=\.) (?=[A-Z])", paragraph)


def answer(home: Home, *arguments: str) -> str:
    """What a command prints."""
    done = home.run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def past_can_be_edited(home: Home) -> None:
    answer(home, "run", "-p", "rate = 2")
    answer(home, "run", "-c", "-p", "total = 10 * rate")
    answer(home, "run", "-c", "-p", "/edit 1\nrate = 3")
    assert answer(home, "run", "-c", "-p", "total") == "30\n"


def steps_are_seen_and_undone(home: Home) -> None:
    note = home.path / "note.txt"
    assert answer(home, "run", "-p", "write('note.txt', 'one')") == "created note.txt: 1 line\n"
    code, screen = home.run_on_a_terminal("run", "-c", typed=b"/timeline\r\x04")
    assert (code, note.exists()) == (0, True)
    assert b"write('note.txt', 'one')" in screen
    assert "note.txt" in answer(home, "undo", "ses_")
    assert not note.exists()
    assert "42" in anyio.run(in_an_editor, home.path, "6 * 7")


async def in_an_editor(place: Path, text: str) -> str:
    """What an editor shows after a prompt."""
    async with in_memory(place) as client:
        await client.prompt(await client.open(place), text)
        return client.text()


def statements_are_recorded(home: Home) -> None:
    replies = [{"statement": "write('note.txt', 'one')\nlength = 3"}, {"text": "Done."}]
    (home.path / "replies.jsonl").write_text("\n".join(map(json.dumps, replies)))
    answer(home, "run", "--mode", "auto", "--model", "scripted:replies.jsonl", "-p", "Count, please.")
    document = json.loads(answer(home, "show", "ses_", "--json"))
    (execution,) = document["executions"]
    assert [(name["name"], name["value"]) for name in execution["names"]] == [("length", "3")]
    assert [file["name"] for file in document["files"]] == ["note.txt"]
    assert "Count, please." in answer(home, "show", "ses_", "--projection", "1")


def history_stays_on_its_branch(home: Home) -> None:
    answer(home, "run", "-p", "rate = 2")
    for source in ("total = 10 * rate", "rate = total = None"):
        answer(home, "run", "-c", "-p", source)
    answer(home, "rewind", "ses_", "--to", "2")
    assert answer(home, "run", "-c", "-p", "total") == "20\n"
    answer(home, "run", "-c", "-p", "/edit 1\nrate = 3")
    assert answer(home, "run", "-c", "-p", "total") == "30\n"
    answer(home, "run", "-c", "-p", "/branch main")
    assert answer(home, "run", "-c", "-p", "print(rate, total)") == "None None\n"


def works_without_a_model(home: Home) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "rewindow" in project["project"]["scripts"]
    assert answer(home, "run", "-p", "6 * 7") == "42\n"


CHECKS: dict[str, Callable[[Home], None]] = {
    "Rewindow is a coding agent whose past you can edit.": past_can_be_edited,
    "It is for people who let a language model work in their project, from an editor, a terminal or a script, and who "
    "want to see and undo each step.": steps_are_seen_and_undone,
    "The agent works by running Python statements, and Rewindow records each one with its variables, its file changes "
    "and what the model was sent.": statements_are_recorded,
    "So you can go back to any statement, or edit it and run the later ones again, while the earlier history stays on "
    "its own branch.": history_stays_on_its_branch,
    "To try it, run `pip install .` and then `rewindow run` in a checkout of this repository: without a model, your "
    "input runs as Python.": works_without_a_model,
}
"""What the product must do for each sentence."""


def test_every_sentence_has_a_check() -> None:
    assert sentences() == list(CHECKS)


@pytest.mark.parametrize("check", CHECKS.values(), ids=lambda check: check.__name__)
def test_sentence_is_true(check: Callable[[Home], None], tmp_path: Path) -> None:
    check(Home(tmp_path))


def test_pictures_come_before_any_table() -> None:
    pictures = re.findall(r"^!\[[^]]{20,}\]\((\S+)\)$", FIRST, re.MULTILINE)
    assert pictures == ["docs/images/session.svg", "docs/images/page.png"]
    assert "|" not in FIRST


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "images").glob("*.png")), ids=lambda path: path.name)
def test_pictures_are_small(path: Path) -> None:
    with Image.open(path) as picture:
        assert picture.size in {(1440, 900), (400, 800)}
    assert path.stat().st_size <= MOST_BYTES
