"""Files that a command changes: recorded with both contents, shown, and put back by a rewind."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from xxhash import _xxhash

from engine import Session
from engine.core.clock import SystemClock
from engine.core.execution import DIRECTORY
from engine.log.events.execution import FileWritten
from engine.log.events.going_back import Rewound
from engine.log.file_history import rewound_lines
from engine.log.store.memory import MemoryStore
from engine.session.commands.files import NO_FILES, NO_FILES_SINCE
from engine.session.past.left_files import NOT_STORED, NOT_UTF8, ONLY_COPY
from engine.session.past.merging import SAME_LINES
from engine.session.past.patches import OUTSIDE, FileDelta, changed_since, deltas_of, for_patch, patch
from engine.session.past.undoing import CHANGED_LATER, NOT_BY_STATEMENT, NOTHING_TO_REDO, NOTHING_TO_UNDO, UNDONE
from engine.session.working_tree import changes, listing
from engine.session.working_tree.baseline import FOLDER
from engine.session.working_tree.changes import (
    AMBIGUOUS,
    BY_OTHERS,
    DIFFED_BYTES,
    MOVED,
    NONE_CHANGED,
    NONE_UNDONE,
    NOT_CERTAIN,
    NOT_COMPARED,
    SAVED,
    SHARED,
    TOO_LARGE,
    TOO_LONG,
    TOO_SLOW,
)
from tests.engine.files.test_git_state import git as run_git
from tests.support.hostile_repository import untouched_repository
from tests.support.sessions import answer_to, events_of, session_in, value_of

pytestmark = pytest.mark.anyio


@pytest.fixture
async def project(tmp_path: Path) -> Path:
    """A directory with a few entries of each kind."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    (root / "b.bin").write_bytes(bytes(range(256)))
    (root / "sub").mkdir()
    (root / "sub" / "c.txt").write_text("three\n")
    (root / "link").symlink_to("a.txt")
    (root / ".gitignore").write_text("*.log\nbuild/\n")
    (root / "old.log").write_text("kept\n")
    return root


@pytest.fixture
async def session(project: Path, tmp_path: Path) -> AsyncIterator[Session]:
    with untouched_repository(project):
        async with session_in(project, state=tmp_path / "state") as opened:
            yield opened


def tree(root: Path) -> dict[str, object]:
    """What is in a directory: kind, content and permissions of each entry."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            found[str(path.relative_to(root))] = os.readlink(path)
        elif stat.S_ISDIR(mode):
            found[str(path.relative_to(root))] = stat.S_IMODE(mode)
        else:
            found[str(path.relative_to(root))] = (path.read_bytes(), stat.S_IMODE(mode))
    return found


def is_running(pid: int) -> bool:
    path = Path(f"/proc/{pid}/stat")
    return path.exists() and path.read_bytes().rpartition(b")")[2].split()[0] != b"Z"


def make(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


CHANGES = {
    "a file changes": "echo two >> a.txt",
    "a binary file changes": "printf '\\0\\1' > b.bin",
    "a file is made": "echo new > new.txt",
    "a file is made in a new directory": "mkdir -p x/y && echo new > x/y/new.txt",
    "an empty directory is made": "mkdir empty",
    "a file is removed": "rm sub/c.txt",
    "a directory is removed": "rm -r sub",
    "a file moves": "mv a.txt sub/moved.txt",
    "a file becomes executable": "chmod 755 a.txt",
    "a file changes with its mode": "echo two > a.txt; chmod 600 a.txt",
    "a link changes": "ln -sfn b.bin link",
    "a link is made": "ln -s sub dirlink",
    "a link is removed": "rm link",
    "a link becomes a file": "rm link; echo file > link",
    "a file becomes a link": "rm a.txt; ln -s b.bin a.txt",
    "a file becomes a directory": "rm a.txt; mkdir a.txt; echo in > a.txt/in",
    "a directory becomes a file": "rm -r sub; echo file > sub",
    "same size and time": "cp -p a.txt same.log; echo eno > a.txt; touch -r same.log a.txt; rm same.log",
    "names with blanks and line ends": "echo x > 'a b'; echo x > $'a\\nb'",
    "all of it": "rm -r a.txt b.bin sub link; mkdir n; echo n > n/n",
}


@pytest.mark.parametrize("command", CHANGES.values(), ids=CHANGES)
async def test_rewind_undoes_what_a_command_did(session: Session, project: Path, command: str) -> None:
    before = tree(project)
    await session.cell("1")
    finished = await session.cell(f"bash({command!r})")
    assert finished.exception is None
    assert tree(project) != before
    await session.rewind(1)
    after = tree(project)
    assert [left.reason for event in events_of(session, Rewound) for left in event.left] == []
    assert after == before


async def test_command_says_what_it_changed(session: Session, project: Path) -> None:
    value = await value_of(session, "bash('echo two >> a.txt; echo new > new.txt; rm sub/c.txt; echo done')")
    assert value == "done\n(files: 1 made (new.txt), 1 changed (a.txt), 1 removed (sub/c.txt))"
    events = {Path(event.path).name: event for event in events_of(session, FileWritten)}
    assert [(each.old, each.new) for each in events["a.txt"].changes] == [("one\n", "one\ntwo\n")]
    assert [(each.old, each.new) for each in events["new.txt"].changes] == [(None, "new\n")]
    assert all(event.noticed for event in events.values())


async def test_command_that_changes_nothing_leaves_no_record(session: Session) -> None:
    assert await value_of(session, "bash('cat a.txt')") == "one"
    assert events_of(session, FileWritten) == []


async def test_what_the_user_changed_before_is_not_the_commands(session: Session, project: Path) -> None:
    await session.cell("1")
    await session.cell("bash('true')")
    (project / "a.txt").write_text("by the user\n")
    await session.cell("bash('echo two > sub/c.txt')")
    assert [Path(event.path).name for event in events_of(session, FileWritten)] == ["c.txt"]
    await session.rewind(1)
    assert (project / "a.txt").read_text() == "by the user\n"
    assert (project / "sub" / "c.txt").read_text() == "three\n"


async def test_what_somebody_else_changed_since_stays(session: Session, project: Path) -> None:
    await session.cell("1")
    await session.cell("bash('echo two > a.txt; mkdir made; echo x > made/x')")
    (project / "a.txt").write_text("by the user\n")
    (project / "made" / "mine").write_text("by the user\n")
    await session.rewind(1)
    assert (project / "a.txt").read_text() == "by the user\n"
    assert sorted(os.listdir(project / "made")) == ["mine"]
    (rewound,) = events_of(session, Rewound)
    assert {Path(left.path).name: left.reason for left in rewound.left} == {
        "a.txt": SAME_LINES,
        "made": "the directory has other files now",
    }


async def test_ignored_files_are_neither_recorded_nor_removed(session: Session, project: Path) -> None:
    await session.cell("1")
    await session.cell("bash('echo more >> old.log; mkdir build; echo x > build/x; echo two > a.txt')")
    assert [Path(event.path).name for event in events_of(session, FileWritten)] == ["a.txt"]
    await session.rewind(1)
    assert (project / "old.log").read_text() == "kept\nmore\n"
    assert (project / "build" / "x").exists()


async def test_file_that_a_changed_rule_reveals_is_not_removed(session: Session, project: Path) -> None:
    await session.cell("1")
    await session.cell("bash('> .gitignore; echo new > new.log')")
    events = {Path(event.path).name: event for event in events_of(session, FileWritten)}
    assert events["old.log"].unsure == NOT_CERTAIN
    assert not events["new.log"].unsure
    await session.rewind(1)
    assert (project / "old.log").read_text() == "kept\n"
    assert not (project / "new.log").exists()
    assert (project / ".gitignore").read_text() == "*.log\nbuild/\n"
    (rewound,) = events_of(session, Rewound)
    assert [(Path(left.path).name, left.reason) for left in rewound.left] == [("old.log", NOT_CERTAIN)]


async def test_git_repository_is_neither_recorded_nor_changed(session: Session, project: Path) -> None:
    await session.cell("1")
    await session.cell(
        "bash('rm -r .git; git init -q . && git add -A && git -c user.email=a@b -c user.name=a commit -qm one"
        " && echo two > a.txt')"
    )
    assert {Path(event.path).name for event in events_of(session, FileWritten)} == {"a.txt"}
    head = (project / ".git" / "HEAD").read_bytes()
    await session.rewind(1)
    assert (project / ".git" / "HEAD").read_bytes() == head
    status = await anyio.run_process(["git", "status", "--porcelain"], cwd=project)
    assert status.stdout == b""


async def test_repeated_rewinds_and_branches_find_their_files(session: Session, project: Path) -> None:
    await session.cell("1")
    states = [tree(project)]
    for number in range(3):
        await session.cell(f"bash('echo {number} >> a.txt; mkdir -p d{number}; echo {number} > d{number}/f')")
        states.append(tree(project))
    await session.rewind(2)
    assert tree(project) == states[1]
    await session.rewind(1)
    assert tree(project) == states[0]
    await answer_to(session, "/branch main")
    assert tree(project) == states[3]


async def test_directory_has_its_digest_and_no_diff(session: Session) -> None:
    await session.cell("bash('mkdir made')")
    (event,) = events_of(session, FileWritten)
    assert (event.before_digest, event.after_digest, event.unshown) == ("", DIRECTORY, True)


# --- undo and redo ----------------------------------------------------------------------------------------------------


async def test_undo_goes_back_step_by_step_and_redo_returns(session: Session, project: Path) -> None:
    states = [tree(project)]
    for source in ("bash('echo two > a.txt; mkdir d')", "x = 1", "write('d/w.txt', 'w\\n')", "bash('rm -r sub link')"):
        await session.cell(source)
        if tree(project) != states[-1]:
            states.append(tree(project))
    for state in reversed(states[:-1]):
        await session.undo()
        assert tree(project) == state
    assert await answer_to(session, "/undo") == NOTHING_TO_UNDO
    for state in states[1:]:
        await session.redo()
        assert tree(project) == state
    assert await answer_to(session, "/redo") == NOTHING_TO_REDO
    assert await value_of(session, "x") == "1"


async def test_undo_of_an_earlier_statement_leaves_what_a_later_one_changed(session: Session, project: Path) -> None:
    await session.cell("bash('echo two > a.txt; echo two > sub/c.txt')")
    await session.cell("bash('echo three > a.txt')")
    result = await session.undo(1)
    assert result.rewound is not None
    assert [(Path(left.path).name, left.reason) for left in result.rewound.left] == [("a.txt", CHANGED_LATER.format(2))]
    assert (project / "a.txt").read_text() == "three\n"
    assert (project / "sub" / "c.txt").read_text() == "three\n"
    assert await answer_to(session, "/undo 1") == UNDONE.format(1)
    await session.cell("1")
    assert await answer_to(session, "/undo 3") == NOT_BY_STATEMENT.format(3)


@pytest.mark.parametrize("by_rewind", [False, True], ids=["undo", "rewind"])
async def test_nothing_is_removed_that_no_way_back_could_restore(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch, by_rewind: bool
) -> None:
    monkeypatch.setattr("engine.session.working_tree.baseline.LARGEST", 100)
    await session.cell("bash('head -c 200 /dev/zero > large; echo two > a.txt')")
    rewound = await session.rewind(0) if by_rewind else (await session.undo()).rewound
    assert rewound is not None
    assert [(Path(left.path).name, left.reason) for left in rewound.left] == [("large", NOT_STORED)]
    assert (project / "large").stat().st_size == 200
    assert (project / "a.txt").read_text() == "one\n"


async def test_dry_run_changes_nothing(session: Session, project: Path) -> None:
    await session.cell("bash('echo two > a.txt')")
    state = tree(project)
    assert await answer_to(session, "/undo --dry-run") == "This would undo 1 file: `a.txt`."
    assert tree(project) == state
    await session.undo()
    assert await answer_to(session, "/redo --dry-run") == "This would redo 1 file: `a.txt`."


async def test_new_change_ends_what_can_be_redone(session: Session, project: Path) -> None:
    await session.cell("bash('echo two > a.txt')")
    await session.undo()
    await session.cell("bash('echo new > new.txt')")
    assert await answer_to(session, "/redo") == NOTHING_TO_REDO
    await session.undo()
    assert not (project / "new.txt").exists()
    assert (project / "a.txt").read_text() == "one\n"


async def test_rewind_and_undo_follow_each_other(session: Session, project: Path) -> None:
    await session.cell("bash('echo two > a.txt')")
    two = tree(project)
    await session.cell("bash('echo three > a.txt')")
    await session.undo()
    assert tree(project) == two
    await session.rewind(1)
    assert tree(project) == two
    await session.undo()
    assert (project / "a.txt").read_text() == "one\n"
    await answer_to(session, "/branch main")
    assert (project / "a.txt").read_text() == "two\n"


async def test_model_is_told_of_an_undo(session: Session) -> None:
    await session.cell("bash('echo two > a.txt')")
    await session.undo()
    (event,) = events_of(session, Rewound)
    assert list(rewound_lines(event, os.path.basename)) == ["Undid the changes of statement 1 to 1 file: a.txt."]


async def test_session_that_is_loaded_again_undoes_and_redoes(project: Path, tmp_path: Path) -> None:
    store = MemoryStore(SystemClock())
    async with session_in(project, store, state=tmp_path / "state") as session:
        await session.cell("bash('echo two > a.txt; mkdir d; ln -s x d/l')")
        changed = tree(project)
        await session.undo()
        before = tree(project)
        name = session.session_id
    async with session_in(project, store, state=tmp_path / "state", load=name) as session:
        await session.redo()
        assert tree(project) == changed
        await session.undo()
        assert tree(project) == before


# --- changes ----------------------------------------------------------------------------------------------------------


async def test_changes_are_listed(session: Session) -> None:
    assert await answer_to(session, "/changes") == NO_FILES
    await session.cell(
        "bash('printf \"one\\\\ntwo\\\\n\" > a.txt; printf x > n; rm link; chmod 755 sub/c.txt; mkdir d')"
    )
    await session.cell("bash('printf \"\\\\0\" > b.bin')")
    assert await answer_to(session, "/changes") == (
        "5 files changed:\n\n- `a.txt`: changed, +1\n- `b.bin`: changed, binary, 1 byte\n- `link`: removed, -1\n"
        "- `n`: made, +1\n- `sub/c.txt`: mode 100644 -> 100755"
    )
    assert (await answer_to(session, "/changes 1")).splitlines()[2:] == ["- `b.bin`: changed, binary, 1 byte"]
    await session.undo()
    assert await answer_to(session, "/changes 1") == NO_FILES_SINCE.format(1)


@pytest.mark.parametrize("command", CHANGES.values(), ids=CHANGES)
async def test_patch_makes_what_the_session_made(session: Session, project: Path, tmp_path: Path, command: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(project, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    await session.cell(f"bash({command!r})")
    parts = session._parts  # pyright: ignore[reportPrivateUsage]
    changed = changed_since(parts.log.events, parts.log.path, 0)
    assert changed is not None
    deltas = deltas_of(changed, parts.store, parts.redactor)
    assert deltas is not None
    data = patch(deltas, str(project))
    if data:
        await anyio.run_process(["git", "apply", "-"], input=data.encode(), cwd=copy)

    def files(root: Path) -> dict[str, object]:
        return {
            path: found[0] if isinstance(found, tuple) and not found[1] & 0o100 else found
            for path, found in tree(root).items()
            if not isinstance(found, int) and path != "same.log" and not path.startswith(".git/")
        }

    assert {**files(copy)}.keys() == files(project).keys()
    assert [found for _, found in sorted(files(copy).items())] == [found for _, found in sorted(files(project).items())]


# --- statements that write without a tool -----------------------------------------------------------------------------

OWN = {
    "a process": "import subprocess; subprocess.run('echo two > a.txt; mkdir d; mv b.bin d/', shell=True, check=True)",
    "os.system": "import os; os.system('rm -r sub; chmod 700 a.txt')",
    "a fork": "import os\nif not (pid := os.fork()):\n    open('a.txt', 'w').write('two'); os._exit(0)\n"
    "os.waitpid(pid, 0)",
    "mkdir": "import os; os.makedirs('x/y')",
    "rmdir": "import os; os.remove('sub/c.txt'); os.rmdir('sub')",
    "symlink": "import os; os.remove('link'); os.symlink('sub', 'link')",
    "rmtree": "import shutil; shutil.rmtree('sub')",
    "a process and Python": "import subprocess; open('a.txt', 'w').write('two')\n"
    "subprocess.run('echo three > a.txt; echo new > new', shell=True); open('sub/c.txt', 'w').write('four')",
    "a process and a tool": "import subprocess; write('a.txt', 'two')\n"
    "subprocess.run('echo three > a.txt; echo new > new', shell=True)\nbash('echo more >> new')",
}


@pytest.mark.parametrize("source", OWN.values(), ids=OWN)
async def test_rewind_undoes_what_a_statement_did_without_a_tool(session: Session, project: Path, source: str) -> None:
    before = tree(project)
    await session.cell("1")
    finished = await session.cell(source)
    assert finished.exception is None
    assert tree(project) != before
    await session.rewind(1)
    assert [left.reason for event in events_of(session, Rewound) for left in event.left] == []
    assert tree(project) == before


async def test_statement_that_starts_nothing_compares_nothing(session: Session, tmp_path: Path) -> None:
    await session.cell("x = 1; open('a.txt', 'w').write('two')")
    assert not (tmp_path / "state" / FOLDER).exists()
    await session.cell("import subprocess; subprocess.run('true')")
    assert len(list((tmp_path / "state" / FOLDER).glob("*.db"))) == 1


async def test_change_while_another_session_acts_is_left(session: Session, project: Path, tmp_path: Path) -> None:
    await session.cell("1")
    async with session_in(project, state=tmp_path / "state") as other, anyio.create_task_group() as tasks:
        tasks.start_soon(other.cell, "bash('echo mine > a.txt; sleep 1')")
        await anyio.sleep(0.4)
        await session.cell("bash('echo two > sub/c.txt')")
    await session.rewind(1)
    assert (project / "sub" / "c.txt").read_text() == "two\n"
    (rewound,) = events_of(session, Rewound)
    assert {left.reason for left in rewound.left} == {SHARED}


async def test_directory_that_cannot_be_compared_is_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MOST_ENTRIES", 3)
    for name in "abcd":
        (tmp_path / name).touch()
    async with session_in(tmp_path, state=tmp_path.parent / "state") as session:
        told = await value_of(session, "bash('echo x > e')")
        assert told == f"(files: {NOT_COMPARED.format(tmp_path, TOO_LARGE)})"
        assert await value_of(session, "bash('echo x > e')") == "(no output)"
        assert events_of(session, FileWritten) == []


async def test_move_of_a_repository_is_named_with_the_way_back(session: Session, project: Path) -> None:
    config = "git config user.name t && git config user.email t@e"
    await session.cell(f"bash('rm -r .git; git init -qb main . && {config} && git add a.txt && git commit -qm one')")
    value = await value_of(session, "bash('git rm -q a.txt && git commit -qm two')")
    was, now = (run_git(project, "rev-parse", name)[:7] for name in ("HEAD~", "HEAD"))
    moved = MOVED.format(f"main: {was} -> {now}, undo with `git reset --soft {was}`")
    assert value == f"(files: 1 removed (a.txt); {moved})"
    moved = MOVED.format(f"HEAD: main -> new, undo with `git switch main`; new: nothing -> {now}")
    assert await value_of(session, "bash('git switch -qc new')") == f"(files: {NONE_CHANGED}; {moved})"


async def test_what_somebody_else_changed_between_commands_is_told_once(session: Session, project: Path) -> None:
    assert await value_of(session, "bash('echo two > a.txt')") == "(files: 1 changed (a.txt))"
    (project / "sub" / "c.txt").write_text("theirs\n")
    (project / "theirs.txt").write_text("theirs\n")
    await session.cell("write('mine.txt', 'mine')")
    await session.undo()
    theirs = BY_OTHERS.format("1 made (theirs.txt), 1 changed (sub/c.txt)")
    assert await value_of(session, "bash('echo three > a.txt')") == f"(files: 1 changed (a.txt); {theirs})"
    assert await value_of(session, "bash('true')") == "(no output)"
    await session.rewind(0)
    assert (project / "sub" / "c.txt").read_text() == "theirs\n"
    assert (project / "theirs.txt").exists()


class SavingEditor:
    """An editor that says what it saves, and has no text that is not on disk."""

    offers, writes, opened = False, False, ()

    def __init__(self) -> None:
        self.saved: dict[str, int] = {}

    def save(self, path: Path, text: str) -> None:
        path.write_text(text)
        self.saved[str(path)] = time.time_ns()

    def take_moved(self) -> tuple[str, ...]:
        return ()

    def saved_since(self, moment: int) -> list[str]:
        return [path for path, at in self.saved.items() if at >= moment]

    async def read(self, path: str) -> str | None:
        raise LookupError(path)

    async def write(self, path: str, text: str) -> None:
        raise OSError(path)


async def test_what_the_editor_saved_during_a_command_is_left(session: Session, project: Path) -> None:
    editor = SavingEditor()
    session.attach(None, editor, None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.cell, "bash('sleep 0.6; echo two > a.txt')")
        await anyio.sleep(0.4)
        editor.save(project / "sub" / "c.txt", "mine\n")
    result = await session.undo()
    assert result.rewound is not None
    assert [(Path(left.path).name, left.reason) for left in result.rewound.left] == [("c.txt", SAVED)]
    assert ((project / "a.txt").read_text(), (project / "sub" / "c.txt").read_text()) == ("one\n", "mine\n")


TICKS = 0.1
"""Seconds after which a file is older than a command for certain, because file systems stamp in ticks."""
MOVED_IN = {
    "a file that a rule leaves out": "mv old.log notes.txt",
    "a directory that a rule leaves out": "mv build results",
    "a directory of packages": "mv node_modules/pkg pkg",
    "a file from outside": "mv ../outside/thesis.txt .",
    "a repository of another kind": "mv .hg hg-backup",
}


@pytest.mark.parametrize("command", MOVED_IN.values(), ids=MOVED_IN)
async def test_undo_removes_nothing_that_a_command_moved_in(session: Session, project: Path, command: str) -> None:
    for name in ("build/out.txt", "node_modules/pkg/main.js", ".hg/history", "../outside/thesis.txt"):
        make(project / name, "mine\n")
    await anyio.sleep(TICKS)
    await session.cell(f"bash({command!r})")
    state = tree(project)
    result = await session.undo()
    assert result.rewound is not None
    assert result.rewound.left
    assert {left.reason for left in result.rewound.left} == {NOT_CERTAIN}
    assert tree(project) == state


@pytest.mark.parametrize("command", ["mv a.txt b.txt", "mv sub sub2", "ln a.txt b.txt", "cp a.txt b.txt; rm a.txt"])
async def test_undo_takes_back_what_moved_within_the_directory(session: Session, project: Path, command: str) -> None:
    state = tree(project)
    await session.cell(f"bash({command!r})")
    assert tree(project) != state
    await session.undo()
    assert tree(project) == state


async def test_write_of_another_session_during_a_command_is_left(
    session: Session, project: Path, tmp_path: Path
) -> None:
    await session.cell("bash('true')")
    async with session_in(project, state=tmp_path / "state") as other, anyio.create_task_group() as tasks:
        tasks.start_soon(session.cell, "bash('sleep 2')")
        await anyio.sleep(0.4)
        await other.cell("write('a.txt', 'theirs'); open('new.txt', 'w').write('theirs')")
    result = await session.undo(2)
    assert result.rewound is not None
    assert {(Path(left.path).name, left.reason) for left in result.rewound.left} == {
        ("a.txt", SHARED),
        ("new.txt", SHARED),
    }
    assert ((project / "a.txt").read_text(), (project / "new.txt").read_text()) == ("theirs\n", "theirs")


async def test_directories_get_their_permissions_back(session: Session, project: Path) -> None:
    for number, mode in enumerate((0o777, 0o500, 0o555, 0o1, 0o0)):
        make(project / f"d{number}" / "in.txt", "in\n")
        (project / f"d{number}").chmod(mode)
    state = tree(project)
    await session.cell("bash('chmod -R u+rwx d*; rm -r d*')")
    await session.undo()
    assert tree(project) == state
    await session.redo()
    assert not [name for name in tree(project) if name.startswith("d")]


async def test_names_that_only_bytes_tell_apart_are_left(session: Session, project: Path) -> None:
    await session.cell("bash(\"echo one > $'n\\\\xfe'; echo two > $'n\\\\xff'\")")
    await session.cell("bash(\"rm $'n\\\\xfe'; echo changed > $'n\\\\xff'\")")
    result = await session.undo()
    assert result.rewound is not None
    assert {left.reason for left in result.rewound.left} == {AMBIGUOUS}
    assert tree(project)["n\udcff"] == (b"changed\n", 0o644)


async def test_long_changes_are_not_compared_line_by_line(session: Session, project: Path) -> None:
    text = "".join(f"{number:07}\n" for number in range(DIFFED_BYTES // 8))
    (project / "long.txt").write_text(text)
    await session.cell("bash('tac long.txt > other.txt; mv other.txt long.txt; echo two > a.txt')")
    events = {Path(event.path).name: event for event in events_of(session, FileWritten)}
    assert (events["long.txt"].changes, events["long.txt"].note) == ((), TOO_LONG)
    assert [each.new for each in events["a.txt"].changes] == ["two\n"]
    size = f"{len(text):,}"
    assert f"- `long.txt`: changed, {size} -> {size} bytes" in await answer_to(session, "/changes")
    await session.undo()
    assert (project / "long.txt").read_text() == text


async def test_a_cancel_ends_a_comparison_that_takes_long(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".gitignore").write_text("\n".join(f"*{'?' * 90}{number}" for number in range(1000)))
    for number in range(3000):
        make(project / f"{number:05}{'a' * 240}", "")
    began = time.monotonic()
    with anyio.move_on_after(0.5):
        await session.cell("bash('true')")
    assert time.monotonic() - began < 5
    monkeypatch.setattr(listing, "MOST_SECONDS", 0.2)
    assert NOT_COMPARED.format(project, TOO_SLOW) in await value_of(session, "bash('true')")


async def test_what_moved_away_from_a_name_that_cannot_be_made_again_stays(session: Session, project: Path) -> None:
    await session.cell("bash(\"mkdir d; echo mine > $'d/f\\\\xfc'\")")
    await session.cell("bash('mv d/f* g')")
    result = await session.undo()
    assert result.rewound is not None
    assert {(Path(left.path).name, left.reason) for left in result.rewound.left} == {
        ("f\ufffd", NOT_UTF8),
        ("g", ONLY_COPY),
    }
    assert (project / "g").read_text() == "mine\n"


async def test_a_moved_file_stays_if_its_earlier_name_was_used_again(session: Session, project: Path) -> None:
    await session.cell("bash('mv a.txt b.txt')")
    await session.cell("write('a.txt', 'other')")
    result = await session.undo(1)
    assert result.rewound is not None
    reasons = {Path(left.path).name: left.reason for left in result.rewound.left}
    assert reasons == {"a.txt": CHANGED_LATER.format(2), "b.txt": ONLY_COPY}
    assert (project / "b.txt").read_text() == "one\n"


async def test_of_very_many_changes_none_is_undone(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "MOST_RECORDED", 3)
    state = tree(project)
    assert NONE_UNDONE in await value_of(session, "bash('mkdir n; mv a.txt b.bin sub n')")
    moved = tree(project)
    result = await session.undo()
    assert result.rewound is not None
    assert {left.reason for left in result.rewound.left} == {changes.TOO_MANY}
    assert tree(project) == moved != state


@pytest.mark.parametrize("name", ["made", "made.log"])
async def test_a_link_that_is_renamed_is_undone(session: Session, project: Path, name: str) -> None:
    await session.cell("1")
    state = tree(project)
    await session.cell(f"import os; os.symlink('a.txt', {name!r})")
    await session.cell(f"import os; os.rename({name!r}, 'renamed')")
    await session.rewind(1)
    left = {Path(each.path).name for each in events_of(session, Rewound)[-1].left}
    assert {path for path in tree(project).keys() ^ state.keys() if path not in left} == set()


async def test_what_c_code_writes_later_is_undone(session: Session, project: Path) -> None:
    await session.cell("import ctypes; creat = ctypes.CDLL(None).creat")
    state = tree(project)
    await session.cell("creat(b'a.txt', 0o644), creat(b'made', 0o644)")
    assert {Path(each.path).name for each in events_of(session, FileWritten)} == {"a.txt", "made"}
    await session.undo()
    assert tree(project) == state


LIBRARY = Path(_xxhash.__file__)
LOOKS = "import _xxhash", "x = 1", "y = 2"


@pytest.mark.parametrize(("sources", "fast", "expected"), [(LOOKS, 9, 3), (LOOKS, -1, 0), (LOOKS[1:], 9, 0)])
async def test_directories_are_compared_while_a_library_in_c_is_loaded(
    session: Session,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    sources: tuple[str, ...],
    fast: float,
    expected: int,
) -> None:
    shutil.copy(LIBRARY, project)
    monkeypatch.setattr(changes, "FAST_SECONDS", fast)
    begun: list[float] = []
    begin = changes.TreeComparison.begin

    async def counting(self: changes.TreeComparison) -> changes.Begun:
        begun.append(0)
        return await begin(self)

    monkeypatch.setattr(changes.TreeComparison, "begin", counting)
    for source in sources:
        await session.cell(source)
    assert len(begun) == expected


OVER_A_FILE = ["os.rename('link', 'sub/c.txt')", "os.remove('a.txt'); os.symlink('sub', 'a.txt')"]


@pytest.mark.parametrize(
    "source", [*OVER_A_FILE, "os.chmod('sub', 0o700)", "os.chmod('link', 0o600)", "os.rename('a.txt', 'link')"]
)
async def test_links_and_modes_by_a_statements_own_code_are_undone(
    session: Session, project: Path, source: str
) -> None:
    state = tree(project)
    await session.cell(f"import os; {source}")
    assert tree(project) != state
    await session.undo()
    assert tree(project) == state


async def test_undo_takes_special_permissions_but_gives_none(session: Session, project: Path) -> None:
    await session.cell("bash('chmod u+s a.txt')")
    await session.undo()
    assert tree(project)["a.txt"] == (b"one\n", 0o644)
    (project / "a.txt").chmod(0o4644)
    await session.cell("bash('chmod u-s a.txt')")
    result = await session.undo()
    assert result.rewound is not None
    assert [Path(left.path).name for left in result.rewound.left] == ["a.txt"]


async def test_undo_of_a_protected_file_ends_what_statements_left_running(session: Session, project: Path) -> None:
    await session.cell("write('.envrc', 'export A=1\\n')")
    await session.cell("import subprocess; child = subprocess.Popen(['sleep', '600'])")
    pid = int(await value_of(session, "child.pid"))
    await session.undo(1)
    assert not (project / ".envrc").exists()
    assert not is_running(pid)


async def test_act_of_a_killed_session_holds_up_no_other(session: Session, project: Path, tmp_path: Path) -> None:
    await session.cell("bash('true')")
    (path,) = (tmp_path / "state" / FOLDER).glob("*.db")
    with closing(sqlite3.connect(path)) as database:
        gone = database.execute("SELECT process FROM running").fetchone()[0].rsplit(" ", 1)[0]
        database.execute("INSERT INTO running VALUES('other', ?, ?, NULL)", (f"{gone} 1", time.time()))
        database.commit()
    await session.cell("bash('echo two > a.txt')")
    await session.undo()
    assert (project / "a.txt").read_text() == "one\n"


async def test_doubt_about_a_later_change_keeps_a_file_from_going_back(session: Session, project: Path) -> None:
    await session.cell("bash('echo two > a.txt')")
    await session.cell("bash('mv -f old.log a.txt')")
    rewound = await session.rewind(0)
    assert rewound is not None
    assert [(Path(left.path).name, left.reason) for left in rewound.left] == [("a.txt", NOT_CERTAIN)]
    assert (project / "a.txt").read_text() == "kept\n"


MOVED_OVER = {
    "a file that a rule leaves out": "mv -f old.log a.txt",
    "a file of a package": "mv -f node_modules/c.txt sub/c.txt",
    "a file from outside": "mv -f ../outside.txt a.txt",
}


@pytest.mark.parametrize("by_rewind", [False, True], ids=["undo", "rewind"])
@pytest.mark.parametrize("command", MOVED_OVER.values(), ids=MOVED_OVER)
async def test_what_was_moved_over_a_file_is_not_overwritten(
    session: Session, project: Path, command: str, by_rewind: bool
) -> None:
    make(project / "node_modules" / "c.txt", "kept\n")
    make(project / ".." / "outside.txt", "kept\n")
    await anyio.sleep(TICKS)
    await session.cell(f"bash({command!r})")
    moved = tree(project)
    rewound = await session.rewind(0) if by_rewind else (await session.undo()).rewound
    assert rewound is not None
    assert [left.reason for left in rewound.left] == [NOT_CERTAIN]
    assert tree(project) == moved


async def test_a_file_replaced_in_one_piece_is_undone(session: Session, project: Path) -> None:
    state = tree(project)
    await session.cell("bash('echo two > new; mv new a.txt; sed -i s/three/four/ sub/c.txt')")
    await session.undo()
    assert tree(project) == state


async def test_only_copy_stays_where_a_directory_in_use_has_its_name(session: Session, project: Path) -> None:
    await session.cell("bash('mv a.txt b.txt; mkdir a.txt; touch a.txt/in')")
    make(project / "a.txt" / "theirs", "theirs\n")
    result = await session.undo()
    assert result.rewound is not None
    assert ("b.txt", ONLY_COPY) in {(Path(left.path).name, left.reason) for left in result.rewound.left}
    assert (project / "b.txt").read_text() == "one\n"


async def test_only_copy_stays_where_a_directory_has_its_name(session: Session, project: Path) -> None:
    await session.cell("bash('mv a.txt b.txt; mkdir -p a.txt/__pycache__; touch a.txt/__pycache__/x.pyc')")
    result = await session.undo()
    assert result.rewound is not None
    assert {(Path(left.path).name, left.reason) for left in result.rewound.left} == {("b.txt", NOT_CERTAIN)}
    assert (project / "b.txt").read_text() == "one\n"


KEEPING = {
    "over another": "mv -f .envrc a.txt",
    "changed afterwards": "mv .envrc new.txt; echo more >> new.txt",
    "in place of a directory": "mv sub sub2; mv .envrc sub",
    "twice": "mv .envrc x; mv x y; echo more >> y",
}


@pytest.mark.parametrize("command", KEEPING.values(), ids=KEEPING)
async def test_only_copy_of_a_protected_file_stays(session: Session, project: Path, command: str) -> None:
    make(project / ".envrc", "export A=kept\n")
    await session.cell(f"bash({command!r})")
    session._parts.facts.is_foreign = True  # pyright: ignore[reportPrivateUsage] -- as if a model had written it
    await session.undo()
    assert any(isinstance(found, tuple) and "kept" in str(found[0]) for found in tree(project).values())


@pytest.mark.parametrize(
    ("path", "reason"), [("/p/a", ""), ("/p/d/../a", ""), ("/p/../out/a", OUTSIDE), ("/p/d/../../pp/a", OUTSIDE)]
)
def test_a_patch_has_no_file_outside_whatever_its_path_in_the_log(path: str, reason: str) -> None:
    deltas = for_patch([FileDelta(path, None, b"x\n", None, 0o100644)], "/p")
    assert deltas[0].reason == reason
    assert ("b/a" in patch(deltas, "/p")) == (not reason)
