"""The additions that CONTRIBUTING works through: their diffs apply, and the tests of each pass in a scratch copy.

A step that CONTRIBUTING only describes is a row of `STEPS`, which does what the words say.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SECONDS: Final = 900.0


class Change(NamedTuple):
    """Text of a file that another text replaces."""

    path: str
    before: str
    after: str


class NewFile(NamedTuple):
    path: str
    text: str


def recipe(title: str) -> str:
    """The text below a heading of CONTRIBUTING."""
    found = re.search(rf"^### {title}\n(.*?)(?=^### |\Z)", contributing(), re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def contributing() -> str:
    return (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def changes(text: str) -> Iterator[Change]:
    """What the diffs of a text change: between two `@@` are lines that follow each other in the file."""
    diffs = re.findall(r"`([^`]+)`:\n\n```diff\n(.*?)```", text, re.DOTALL)
    assert len(diffs) == text.count("```diff")
    for path, diff in diffs:
        for hunk in re.split(r"^@@\n", diff, flags=re.MULTILINE):
            lines = hunk.splitlines(keepends=True)
            before, after = ("".join(line[1:] for line in lines if not line.startswith(sign)) for sign in "+-")
            yield Change(path, before, after)


def new_files(text: str) -> list[NewFile]:
    return [NewFile(*found) for found in re.findall(r"`([^`]+\.py)`:\n\n```python\n(.*?)```", text, re.DOTALL)]


@pytest.mark.parametrize("change", list(changes(contributing())), ids=lambda change: change.path)
def test_the_place_of_each_change_is_there_once(change: Change) -> None:
    assert (ROOT / change.path).read_text(encoding="utf-8").count(f"\n{change.before}") == 1


def test_new_files_import_what_exists() -> None:
    """Or what another example adds."""
    files = new_files(contributing())
    assert files
    new = {path.removesuffix(".py").replace("/", ".") for path, _ in files}
    for path, source in files:
        package = ".".join(Path(path).parent.parts)
        for dots, module, names in re.findall(r"^from (\.*)([\w.]+) import (.+)$", source, re.MULTILINE):
            found = resolve_name(dots + module, package)
            if found not in new:
                assert not [name for name in names.split(", ") if not hasattr(import_module(found), name)], path


# --- in a scratch copy ------------------------------------------------------------------------------------------------

STATUS: Final = '        assert await agent.call("session/status", {"sessionId": session}) == {"status": "open"}\n'
CALL: Final = '        assert await agent.call("_rewindow/tick", {"sessionId": session}) == {"changes": []}\n'
MODULE: Final = '    "session/close": "sessions",\n'
ROW: Final = "| `size(path)` | the number of bytes of a file | nothing | |\n"
NAMED: Final = "    SessionOpened,\n"
CASE: Final = "            SessionOpened()\n"
GOLDEN: Final = "tests/acp_adapter/v1/test_updates_golden.py"
PAGES: Final = "tests/docs/test_pages.py"
DEFECTS: Final = "tests/conformance/test_defects.py"


class Recipe(NamedTuple):
    """The steps that its text only describes, the programs that it names, and the tests that cover the addition."""

    steps: Sequence[Change | NewFile]
    tests: Sequence[str]
    programs: Sequence[str] = ()


RECIPES: Final[Mapping[str, Recipe]] = {
    "A tool for statements": Recipe(
        (
            Change("docs/tools.md", "\n| `grep(", f"\n{ROW}| `grep("),
            NewFile(
                "tests/engine/session/tools/test_size.py",
                "from engine.session.tools.size import Arguments, perform\n"
                "from engine.session.tools.workspace import Workspace\n\n\n"
                "def test_size(tmp_path):\n"
                '    (tmp_path / "a.txt").write_text("four")\n'
                '    assert perform(Workspace(str(tmp_path)), Arguments("a.txt")) == 4\n',
            ),
        ),
        ("tests/engine/session/tools/test_size.py", "tests/engine/session/tools/test_rows.py", PAGES),
    ),
    "An ACP method": Recipe(
        (
            Change("acp_adapter/v1/__init__.py", MODULE, f'{MODULE}    "_rewindow/tick": "sessions",\n'),
            Change("acp_adapter/v2/__init__.py", MODULE, f'{MODULE}    "_rewindow/tick": "sessions",\n'),
            Change("tests/acp_adapter/sessions/test_turn.py", STATUS, STATUS + CALL),
            Change("tests/acp_adapter/v2/test_sessions.py", STATUS, STATUS + CALL),
            Change("tests/docs/test_acp.py", 'own = {"', 'own = {"_rewindow/tick", "'),
        ),
        (
            "tests/acp_adapter/sessions/test_turn.py::test_every_method_and_update_occurs_and_is_valid",
            "tests/acp_adapter/v2/test_sessions.py::test_every_method_and_update_occurs_and_is_valid",
            "tests/acp_adapter/v2/test_sessions.py::test_what_is_advertised_is_served",
            "tests/acp_adapter/test_connection.py",
            "tests/docs/test_acp.py",
        ),
    ),
    "A slash command": Recipe(
        (
            Change("docs/commands.md", "\n| `/tick`", "\n| `/count` | counts the statements |\n| `/tick`"),
            Change(
                "tests/data/acp/updates_v1.json",
                '{"name": "tick"',
                '{"name": "count", "description": "Count the statements"}, {"name": "tick"',
            ),
            Change(
                "tests/engine/session/test_commands.py",
                '        ("/timeline", "No',
                '        ("/count", "0 statements"),\n        ("/timeline", "No',
            ),
        ),
        ("tests/engine/session/test_commands.py", GOLDEN, PAGES),
    ),
    "A level of detail": Recipe(
        (
            Change("docs/glossary.md", "3 changes since a model read it", "3 changes since a model read it, 4 length"),
            Change(
                "tests/support/levels.py",
                '    yield "lod 3 after',
                '    yield "lod 4", LEVELS[4](top)\n    yield "lod 3 after',
            ),
            Change("tests/mcp_tools/test_tools.py", "assert sum(cost) <= 1400", "assert sum(cost) <= 1410"),
            NewFile(
                "tests/engine/files/test_length_level.py",
                "from engine.core.tokens import count\n"
                "from engine.files.detail.length import render\n"
                "from engine.files.detail.scene import Scene\n"
                "from engine.files.document import Place\n"
                "from tests.support.revisions import from_text\n\n\n"
                "def test_length():\n"
                '    scene = Scene(revision=from_text("a\\nb\\n"), place=Place(0, 0), budget=9, count=count)\n'
                '    assert render(scene).text == "2 lines\\n"\n',
            ),
        ),
        (
            "tests/engine/files/test_length_level.py",
            "tests/engine/files/test_levels.py",
            "tests/engine/files/test_group.py",
            "tests/mcp_tools/test_tools.py",
            "tests/mcp_tools/test_schema.py",
        ),
        ("tests.support.levels",),
    ),
    "An event kind": Recipe(
        (
            Change("acp_adapter/updates/session.py", NAMED, f"{NAMED}    SessionTagged,\n"),
            Change("acp_adapter/updates/session.py", CASE, f"{CASE}            | SessionTagged()\n"),
            Change("tests/support/rich_log.py", NAMED, f"{NAMED}    SessionTagged,\n"),
            Change(
                "tests/support/rich_log.py",
                ")\n\n\ndef rich_items",
                '    SessionTagged(tag="parser"),\n)\n\n\ndef rich_items',
            ),
        ),
        (
            "tests/engine/log/events/test_codec.py",
            "tests/engine/log/redaction/test_redactor.py",
            "tests/engine/log/test_facts.py",
            GOLDEN,
            "tests/docs/test_generated.py",
        ),
    ),
    "A conformance requirement": Recipe(
        (),
        (
            "tests/conformance/test_registry.py",
            f"{DEFECTS}::test_conforming_peer_passes_every_requirement",
            f"{DEFECTS}::test_defect_fails_only_its_requirement_in_its_scenario",
            f"{DEFECTS}::test_defect_fails_only_its_requirement_in_the_suite[acp-ACP1-A-UPDATE-022]",
            "tests/docs/test_generated.py",
        ),
    ),
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with all the additions."""
    made = tmp_path_factory.mktemp("copy")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, made / name, follow_symlinks=False)
    for title, each in RECIPES.items():
        for step in (*changes(recipe(title)), *new_files(recipe(title)), *each.steps):
            take(step, made)
    for program in (*(name for each in RECIPES.values() for name in each.programs), "docs.generator"):
        assert run("-m", program, cwd=made) == ""
    return made


def take(step: Change | NewFile, copy: Path) -> None:
    """Take a step. A text that is there twice would be changed at a place that nobody chose."""
    file = copy / step.path
    match step:
        case NewFile():
            file.write_text(step.text, encoding="utf-8")
        case Change():
            text = file.read_text(encoding="utf-8")
            assert text.count(step.before) == 1, step
            file.write_text(text.replace(step.before, step.after), encoding="utf-8")


def run(*arguments: str, cwd: Path) -> str:
    """Run Python in the copy; return what it printed if it failed."""
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, timeout=SECONDS)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.slow  # a quarter of a minute for each
@pytest.mark.parametrize("title", RECIPES)
def test_addition_passes_its_tests(copy: Path, title: str) -> None:
    failed = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n0", *RECIPES[title].tests, cwd=copy)
    assert failed == "", failed  # pytest would cut a difference between texts


def test_each_addition_with_a_diff_is_made() -> None:
    titles = re.findall(r"^### (.*)$", contributing(), re.MULTILINE)
    assert [title for title in titles if "```diff" in recipe(title)] == list(RECIPES)
