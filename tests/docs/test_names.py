"""What the documents name is there: files, links, commands, and the lines that CONTRIBUTING would change."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pytest

from engine import COMMANDS, MODES, SETTINGS, TOOLS
from engine.cli import COMMANDS as COMMAND_LINES
from engine.cli.terminal.line_editor import LOCAL_COMMANDS
from engine.context.tail.prompt import instructions
from engine.files.group import GroupHandle
from engine.files.view import ViewHandle
from engine.runtime.worker.handles.node_names import NodeNames

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
TOP = {path.name for path in ROOT.iterdir()} - {".git"}  # which hooks git puts there is a matter of the machine
NODES = (ViewHandle, GroupHandle)
SUFFIXES = {".py", ".md", ".toml", ".lock"}

EACH_DOCUMENT = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


def prose(document: Path) -> str:
    """The text without its blocks of code."""
    return re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@cache
def words(folder: Path) -> set[str]:
    """Every word of the sources in a folder."""
    return {word for file in folder.rglob("*.py") for word in re.findall(r"\w+", file.read_text(encoding="utf-8"))}


def names_a_file(text: str) -> bool:
    """Whether a quoted word is a path in this repository, by its first part or its suffix."""
    if re.fullmatch(r"[\w.-]+(/[\w.-]+)*/?", text) is None:
        return False
    first, slash, _ = text.partition("/")
    return first in TOP if slash else Path(text).suffix in SUFFIXES


@EACH_DOCUMENT
def test_every_file_that_a_document_names_is_there(document: Path) -> None:
    text = prose(document)
    new = set(re.findall(r"^New file `([^`]+)`", text, re.MULTILINE))
    named = {word for word in re.findall(r"`([^`\s]+)`", text) if names_a_file(word)}
    assert not [path for path in named - new if not (ROOT / path).exists()]


@EACH_DOCUMENT
def test_every_link_to_a_file_leads_to_one(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose(document))
    assert not [link for link in links if "://" not in link and not (document.parent / link).exists()]


def parameters(command: Callable[..., None]) -> Iterable[inspect.Parameter]:
    return inspect.signature(command).parameters.values()


def test_users_read_of_statements_and_model_calls_and_not_of_rounds() -> None:
    """Because two numberings beside that of statements are one too many; the log and the source have Rounds."""
    pages = (
        "README.md",
        *(f"docs/{name}.md" for name in ("context", "configuration", "import", "promises", "terminal", "tools")),
    )
    texts = {
        **{page: (ROOT / page).read_text(encoding="utf-8") for page in pages},
        "commands": repr([*COMMANDS.values(), *LOCAL_COMMANDS.values()]),
        "command lines": repr(COMMAND_LINES),
        "options": repr(
            [getattr(each.default, "help", "") for row in COMMAND_LINES for each in parameters(row.load())]
        ),
        "settings": repr(SETTINGS),
        "instructions": instructions("/p") + instructions("/p", calls_tools=False),
        "names": "".join(str(getattr(NodeNames, name).__doc__) for name in vars(NodeNames)),
        "nodes": "".join(str(getattr(kind, name).__doc__) for kind in NODES for name in dir(kind) if name[0].isupper()),
    }
    assert not [name for name, text in texts.items() if re.search(r"\bRounds?\b", text)]


def test_the_readme_shows_every_command_and_mode() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert not [name for name in COMMANDS if name != "help" and not re.search(rf"`/{name}[` ]", text)]
    assert not [name for name in MODES if f"`{name}`" not in text]
    assert not [row.name for row in COMMAND_LINES if not row.hidden and f"`rewindow {row.name}" not in text]
    assert not [name for name in TOOLS if f"{name}(" not in text]
