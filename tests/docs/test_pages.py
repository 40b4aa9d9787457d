"""The pages name what exists: files, links, commands, tools, limits and attacks."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from acp_adapter.jsonrpc.lines import MAX_LINE
from engine import COMMANDS, MODES
from engine.cli import SUBCOMMANDS
from engine.core.toolbox import TOOLS
from engine.files.guidance import NAMES
from engine.files.prompt_files import SKILL
from engine.log.user_message import BEGINNING_CHARS, EMBEDDED_CHARS, MAX_TEXT_CHARS
from engine.session.queue import MAX_QUEUED
from engine.session.serving import MOST_OPENED
from tests.support.attacks import KINDS, Kind

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "how-to").glob("*.md")])
TOP = {path.name for path in ROOT.iterdir()} - {".git"}  # which hooks git puts there depends on the machine
WIDTH = 120
GENERATED = "Generated from"
SUFFIXES = {".py", ".md", ".toml", ".lock"}
QUOTED = {("", "agent-capabilities")}
"""Links within quotations of a specification."""
LANDLOCK_SINCE = {3: "", 4: " from Linux 6.7 on", 6: " from Linux 6.12 on", 9: " from Linux 7.1 on"}
"""By the version of Landlock that stops an attack."""

EACH_DOCUMENT = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


@cache
def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def prose(document: Path) -> str:
    """The text without its blocks of code."""
    return re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


# --- files and links --------------------------------------------------------------------------------------------------


def names_a_file(text: str) -> bool:
    """Whether a quoted word is a path in this repository, by its first part or its suffix."""
    if re.fullmatch(r"[\w.-]+(/[\w.-]+)*/?", text) is None:
        return False
    first, slash, _ = text.partition("/")
    return first in TOP if slash else Path(text).suffix in SUFFIXES


@EACH_DOCUMENT
def test_named_files_exist(document: Path) -> None:
    text = prose(document)
    new = set(re.findall(r"^(?:New file )?`([^`]+)`[:,]", text, re.MULTILINE))
    named = {word for word in re.findall(r"`([^`\s]+)`", text) if names_a_file(word)}
    assert not [path for path in named - new - {*NAMES, SKILL} if not (ROOT / path).exists()]


@EACH_DOCUMENT
def test_links_lead_to_files_and_headings(document: Path) -> None:
    broken: list[str] = []
    for path, anchor in set(re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", prose(document))) - QUOTED:
        file = document.parent / path if path else document
        if "://" not in path and (not file.exists() or (anchor and anchor not in anchors(file))):
            broken.append(f"{path}#{anchor}")
    assert not broken


@cache
def anchors(document: Path) -> set[str]:
    """The headings of a document, as GitHub links to them, and the anchors that it sets."""
    text = document.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    titles = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles} | set(
        re.findall(r'id="([^"]+)"', text)
    )


@EACH_DOCUMENT
def test_prose_is_wrapped(document: Path) -> None:
    """Except in the changelog, which is too often merged, and in generated pages. A row of a table cannot be."""
    text = prose(document)
    lines = () if document.name == "CHANGELOG.md" or GENERATED in text else text.splitlines()
    assert [line for line in lines if len(line) > WIDTH and not line.startswith("|")] == []


# --- code -------------------------------------------------------------------------------------------------------------


def test_commands_and_modes_are_documented() -> None:
    text = text_of("docs/commands.md")
    assert not [name for name in COMMANDS if not re.search(rf"`/{name}[` ]", text)]
    assert not [name for name in MODES if f"`{name}`" not in text]
    assert not [row.name for row in SUBCOMMANDS if not row.hidden and f"`rewindow {row.name}" not in text]


def test_tools_are_documented() -> None:
    assert not [name for name in TOOLS if f"`{name}(" not in text_of("docs/tools.md")]


def test_limits_of_prompts_are_documented() -> None:
    text = " ".join(text_of("docs/configuration.md").split())
    assert f"| {MAX_TEXT_CHARS:,} characters of text in one prompt |" in text
    assert f"the first {EMBEDDED_CHARS:,} characters of all text resources of one prompt" in text
    assert f"its first {BEGINNING_CHARS:,} characters stay" in text
    assert f"| {MOST_OPENED} views that one prompt opens |" in text
    assert f"| {MAX_QUEUED} prompts that wait for their turns |" in text
    assert f"| {MAX_LINE:,} bytes in one message |" in text


# --- the sandbox ------------------------------------------------------------------------------------------------------


def test_layers_that_stop_each_attack_are_documented() -> None:
    head = "| a statement tries to | stopped by | macOS (Seatbelt), by its documentation, not run |\n|---|---|---|\n"
    _, _, behind = text_of("docs/sandbox.md").partition(head)
    table, _, _ = behind.partition("\n\n")
    assert table.splitlines() == [attack_row(kind) for kind in KINDS.values()]


def attack_row(kind: Kind) -> str:
    layers = [f"`{each}`" if each != "privileges" else each for each in kind.held_by]
    stopped = ", ".join(each + LANDLOCK_SINCE[kind.since] * (each == "`landlock`") for each in layers) or "nothing"
    return f"| {kind.does} | {stopped}{further_layers(kind)} | {kind.on_mac} |"


def further_layers(kind: Kind) -> str:
    found = [
        f"for {who} {', '.join(each if each == 'privileges' else f'`{each}`' for each in layers)} too"
        for who, layers in (("root", kind.as_root), ("others", kind.as_user))
        if layers
    ]
    return f"; {' and '.join(found)}" if found else ""
