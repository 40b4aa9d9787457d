"""Files that somebody else has changed since: merged where that is clean, else left as they are and named."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine import Session
from engine.log.events.going_back import FileToRestore, RewindBegun, Rewound
from engine.log.file_history import MERGED
from engine.log.store.memory import MemoryStore
from engine.session.commands.files import NO_FILES
from engine.session.past import rewinding
from engine.session.past.merging import MOST_BYTES, NOT_TEXT, PROTECTED, SAME_LINES, SECRET
from engine.session.tools import CHANGED, CHANGED_MODE, Workspace
from tests.support.sessions import answer_to, events_of, session_in, value_of

pytestmark = pytest.mark.anyio
LINES = "one\ntwo\nthree\nfour\nfive\n"
WRITTEN = LINES.replace("two", "TWO")
BOTH = WRITTEN.replace("five", "FIVE")
THEIRS = LINES.replace("five", "FIVE")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory without a session's state, so that it is compared around statements."""
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


async def changed(session: Session, name: str = "a", old: str = LINES, new: str = WRITTEN) -> Path:
    """A file of the user that a statement has changed."""
    path = Path(session.cwd) / name
    path.write_bytes(old.encode())
    await value_of(session, f"write({name!r}, {new!r})")
    return path


def reasons(ended: Rewound | None) -> dict[str, str]:
    assert ended is not None
    return {Path(each.path).name: each.reason for each in ended.left}


def state(path: Path) -> object:
    """What is at a place; a rename over it would change its inode."""
    if not path.is_symlink() and not path.exists():
        return None
    return path.lstat().st_ino, path.lstat().st_mode, path.read_bytes() if path.exists() else b""


def merged(ended: Rewound | None) -> list[str]:
    assert ended is not None
    return [Path(each.path).name for each in ended.restored if each.is_merged]


async def test_undo_and_redo_of_a_merge_are_inverse(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        path = await changed(session)
        path.write_text(BOTH)
        for _ in range(2):
            undone = await session.undo()
            assert (path.read_text(), merged(undone.rewound)) == (THEIRS, ["a"])
            redone = await session.redo()
            assert (path.read_text(), merged(redone.rewound)) == (BOTH, [])
            assert redone.rewound is not None
            assert [each.path for each in redone.rewound.restored] == [str(path)]


@pytest.mark.parametrize(
    ("old", "new", "present", "result"),
    [
        ("1\r\n2\r\n3\r\n", "1\r\nB\r\n3\r\n", "0\r\n1\r\nB\r\n3\r\nend\r\n", "0\r\n1\r\n2\r\n3\r\nend\r\n"),
        ("1\n2\n3", "1\n2\nC", "0\n1\n2\nC", "0\n1\n2\n3"),
        ("1\n2\n3\n", "A\n2\n3\n", "A\n2\n3", "1\n2\n3"),
        ("1\n2\n3\n", "A\n2\nC\n", "1\n2\nC\nend\n", None),
        ("1\n2\n3\n", "A\n2\nC\n", "1\n2\nC\n", "1\n2\n3\n"),  # the result is what would come back
        ("1\n2\n3\n", "A\n2\n3\n", "1\n2\n3\nend\n", "1\n2\n3\nend\n"),  # the result is what is there
        ("1\n2\n3\n", "A\n2\n3\n", "a\n2\n3\n", None),
        ("1\n2\n3\n", "", "2\n", None),
        ("", "1\n", "1\n2\n", None),
    ],
)
async def test_merge_of_a_rewind(tmp_path: Path, old: str, new: str, present: str, result: str | None) -> None:
    async with session_in(tmp_path) as session:
        path = await changed(session, old=old, new=new)
        path.write_bytes(present.encode())
        ended = await session.rewind(0)
        if result is None:
            assert reasons(ended) == {"a": SAME_LINES}
            assert path.read_bytes() == present.encode()
        else:
            assert (reasons(ended), merged(ended)) == ({}, ["a"])
            assert path.read_bytes() == result.encode()
        await session.switch("main")
        assert path.read_bytes() == present.encode()


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda path: path.write_bytes(b"\xff\n"), NOT_TEXT),
        (lambda path: path.write_bytes(b"\0\n"), NOT_TEXT),
        (lambda path: path.write_text(BOTH + "x" * MOST_BYTES), NOT_TEXT),
        (lambda path: path.write_text(BOTH) and path.chmod(0o755), CHANGED_MODE.format(0o644, 0o755)),
        (lambda path: path.unlink(), "the file was removed since the session last wrote it"),
        (lambda path: path.unlink() or path.symlink_to("b"), CHANGED),
    ],
    ids=["not UTF-8", "binary", "huge", "mode", "deleted", "link"],
)
async def test_what_cannot_be_merged_is_left(tmp_path: Path, spoil: Callable[[Path], None], reason: str) -> None:
    async with session_in(tmp_path) as session:
        path = await changed(session)
        path.chmod(0o644)
        spoil(path)
        there = state(path)
        assert reasons((await session.undo()).rewound) == {"a": reason}
        assert state(path) == there


async def test_files_that_were_made_or_removed_are_not_merged(project: Path) -> None:
    async with session_in(project, state=project.parent / "state") as session:
        (project / "gone").write_text(LINES)
        await value_of(session, f"write('new', {LINES!r}); bash('rm gone')")
        (project / "new").write_text(THEIRS)
        (project / "gone").write_text(THEIRS)
        assert reasons((await session.undo()).rewound) == {"new": CHANGED, "gone": CHANGED}
        assert (project / "new").read_text() == (project / "gone").read_text() == THEIRS


async def test_protected_file_is_not_merged(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        path = await changed(session, ".envrc")
        path.write_text(BOTH)
        (reason,) = reasons((await session.undo()).rewound).values()
        assert reason.startswith(PROTECTED.split("{")[0])
        assert path.read_text() == BOTH


async def test_secret_is_not_kept_for_a_merge(tmp_path: Path) -> None:
    async with session_in(tmp_path, OPENAI_API_KEY="sk-proj-secret-17") as session:
        path = await changed(session)
        path.write_text(f"{WRITTEN}sk-proj-secret-17\n")
        assert reasons((await session.undo()).rewound) == {"a": SECRET}
        assert path.read_text() == f"{WRITTEN}sk-proj-secret-17\n"


async def test_dry_run_says_what_would_be_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[bytes] = []
    put = MemoryStore.blob_put
    monkeypatch.setattr(MemoryStore, "blob_put", lambda store, data: kept.append(data) or put(store, data))
    async with session_in(tmp_path) as session:
        other, path = await changed(session, "b"), await changed(session)
        path.write_text(BOTH)
        other.write_text(LINES.replace("two", "2"))
        for command in ("/undo --dry-run", "/rewind 0 --dry-run"):
            answer = await answer_to(session, command)
            assert MERGED.format(1, "would be", "a") in answer
            assert (SAME_LINES in answer) == (command != "/undo --dry-run")
        assert (path.read_text(), other.read_text()) == (BOTH, LINES.replace("two", "2"))
        assert not events_of(session, RewindBegun)
        assert BOTH.encode() not in kept
        await session.rewind(0)
        assert BOTH.encode() in kept


# --- what follows a merge ---------------------------------------------------------------------------------------------


async def test_rewinds_one_after_another_keep_others_changes(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        path = await changed(session)
        await value_of(session, f"write('a', {WRITTEN.replace('three', 'THREE')!r})")
        path.write_text(BOTH.replace("three", "THREE"))
        await session.rewind(1)
        assert path.read_text() == BOTH
        await session.rewind(0)
        assert path.read_text() == THEIRS
        await session.switch("main")
        assert path.read_text() == BOTH.replace("three", "THREE")
        await session.switch("b2")
        assert path.read_text() == THEIRS


async def test_undone_merges_leave_nothing_to_a_rewind(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        path = await changed(session)
        path.write_text(BOTH)
        await session.undo()
        assert await session.rewind(0) is None
        assert path.read_text() == THEIRS
        assert await answer_to(session, "/changes") == NO_FILES


async def test_redone_merge_can_be_rewound_with_a_merge(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        path = await changed(session)
        path.write_text(BOTH)
        await session.undo()
        await session.redo()
        assert "+1 -1" in await answer_to(session, "/changes")
        await session.rewind(0)
        assert path.read_text() == THEIRS


async def test_change_after_a_merge_is_merged_again(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        path = await changed(session)
        path.write_text(BOTH)
        await session.undo()
        path.write_text(f"zero\n{THEIRS}")
        assert merged((await session.redo()).rewound) == ["a"]
        assert path.read_text() == f"zero\n{BOTH}"


async def test_write_after_a_merge_is_the_sessions(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        path = await changed(session)
        path.write_text(BOTH)
        await session.undo()
        await value_of(session, "r = read('a'); write('a', 'all mine')")
        await session.undo()
        assert path.read_text() == THEIRS


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda path: path.write_text("once more\n"), CHANGED),
        (lambda path: path.chmod(0o640), CHANGED_MODE.format(0o644, 0o640)),
    ],
    ids=["content", "permissions"],
)
async def test_file_that_changes_after_its_merge_was_planned_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None], reason: str
) -> None:
    trusted: list[object] = []

    def restore(
        workspace: Workspace, file: FileToRestore, wanted: bytes | None, *, is_trusted: bool, **rest: Any
    ) -> object:
        trusted.append(is_trusted)
        change(path)
        return real(workspace, file, wanted, is_trusted=is_trusted, **rest)

    async with session_in(tmp_path) as session:
        path = await changed(session)
        path.chmod(0o644)
        path.write_text(BOTH)
        real = rewinding.restore
        monkeypatch.setattr(rewinding, "restore", restore)
        assert reasons((await session.undo()).rewound) == {"a": reason}
        assert path.read_text() == (BOTH if "permissions" in reason else "once more\n")
        assert trusted == [False]  # another program may run it by now


async def test_file_that_somebody_put_back_is_not_merged(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        path = await changed(session)
        path.write_text(LINES)
        undone = await session.undo()
        assert (reasons(undone.rewound), merged(undone.rewound)) == ({}, [])


async def test_link_is_not_merged(project: Path) -> None:
    async with session_in(project, state=project.parent / "state") as session:
        path = project / "a"
        path.write_text(LINES)
        await value_of(session, "bash('ln -sfn b a')")
        path.unlink()
        path.write_text("b")
        assert reasons((await session.undo()).rewound) == {"a": CHANGED}


async def test_permissions_that_a_statement_set_go_back_with_a_merge(project: Path) -> None:
    async with session_in(project, state=project.parent / "state") as session:
        path = project / "a"
        path.write_text(LINES)
        path.chmod(0o600)
        await value_of(session, f"w = write('a', {WRITTEN!r})\nimport os\nos.chmod('a', 0o644)")
        path.write_text(BOTH)
        await session.undo()
        assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == (THEIRS, 0o600)
