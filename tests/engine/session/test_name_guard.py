"""Protected names that appear while programs of a statement run are taken away at once, and no others."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from engine.files.appearing import REPOSITORY, TOP, WAY, found
from engine.files.safe_open import opened_directory
from engine.runtime.system.new_names import OVERFLOW, NameWatch, NewName
from engine.session import name_guard
from engine.session.name_guard import (
    AWAY,
    ENDED,
    ENDED_STUCK,
    MOST_AGAIN,
    STAYED,
    VANISHED,
    NameGuard,
    allow_names,
    pausing,
)
from tests.support.sessions import in_process, session_in

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems tell no names")
SECONDS = 30.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("root/.git", "root/a/sub"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path / "root"


@pytest.fixture
def guard(root: Path) -> Generator[NameGuard]:
    guard = NameGuard()
    guard.begin({str(root): TOP, str(root / ".git"): REPOSITORY, str(root / "a"): WAY, str(root / "a/sub"): TOP})
    yield guard
    guard.end()


@contextmanager
def late_news(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """News that come only after the block."""
    with monkeypatch.context() as patch:
        patch.setattr(NameWatch, "read", lambda _: [])
        yield


@contextmanager
def lost_news(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """The kernel tells only that there were more news than it can keep."""
    read = NameWatch.read
    with monkeypatch.context() as patch:
        patch.setattr(NameWatch, "read", lambda self: [NewName(OVERFLOW, "")] * bool(read(self)))
        yield


def moved_in(folder: Path) -> list[str]:
    return sorted(path.read_text() for path in folder.iterdir() if path.name.startswith(AWAY))


def paths(guard: NameGuard) -> list[str]:
    return [each.path for each in guard.take()]


def test_a_name_is_renamed_at_once(root: Path, guard: NameGuard) -> None:
    """No call of the guard leads to it: its thread does it."""
    (root / ".git/commondir").write_text("evil")
    ends_at = time.monotonic() + SECONDS
    while (root / ".git/commondir").exists():
        assert time.monotonic() < ends_at
        time.sleep(0.001)
    assert moved_in(root / ".git") == ["evil"]
    ((path, sentence),) = guard.take()
    assert path == str(root / ".git/commondir")
    assert any(str(each) in sentence for each in (root / ".git").iterdir())
    assert guard.take() == []


def test_a_name_that_is_gone_is_told(root: Path, guard: NameGuard, monkeypatch: pytest.MonkeyPatch) -> None:
    with late_news(monkeypatch):
        (root / ".envrc").write_text("evil")
        (root / ".envrc").unlink()
    assert [(each.path, each.sentence) for each in guard.take()] == [(str(root / ".envrc"), VANISHED)]


def test_directories_links_and_new_directories_are_covered(root: Path, guard: NameGuard) -> None:
    (root / ".husky").mkdir()
    (root / "a/sub/.envrc").symlink_to("evil")
    (root / "a/sub/.git").mkdir()
    guard.has_taken  # noqa: B018 -- it looks at the news, so the new repository is watched
    (root / "a/sub/.git/config.worktree").write_text("")
    assert sorted(paths(guard)) == [
        str(root / name) for name in (".husky", "a/sub/.envrc", "a/sub/.git/config.worktree")
    ]
    assert (root / "a/sub/.git").exists()


def test_a_repository_can_be_made_in_place(tmp_path: Path) -> None:
    guard = NameGuard()
    guard.begin({str(tmp_path): TOP})
    try:
        subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
        assert paths(guard) == []
        (tmp_path / ".git/commondir").write_text("evil")
        assert paths(guard) == [str(tmp_path / ".git/commondir")]
        guard.begin({str(tmp_path): TOP, str(tmp_path / ".git"): REPOSITORY})
        (tmp_path / ".git/remotes").mkdir()
        assert paths(guard) == [str(tmp_path / ".git/remotes")]
        assert {"config", "hooks"} <= set(os.listdir(tmp_path / ".git"))
    finally:
        guard.end()


@pytest.mark.parametrize("kind", ["moved", "link", "file"])
def test_only_a_prepared_repository_is_taken_away(root: Path, guard: NameGuard, kind: str) -> None:
    (root / ".git").rename(root / "old")
    (root / "evil").mkdir()
    if kind == "moved":
        (root / "evil").rename(root / ".git")
    elif kind == "link":
        (root / ".git").symlink_to("evil")
    else:
        (root / ".git").write_text("gitdir: evil")
    assert paths(guard) == [str(root / ".git")]
    (root / "old").rename(root / ".git")
    assert paths(guard) == []
    (root / ".git").rename(root / "old")
    (root / ".git").mkdir()
    assert paths(guard) == []
    assert (root / ".git").is_dir()


def test_a_directory_that_is_moved_in_is_looked_through(root: Path, guard: NameGuard) -> None:
    (root / "b/sub").mkdir(parents=True)
    (root / "b/sub/.envrc").write_text("evil")
    (root / "a").rename(root / "c")
    (root / "b").rename(root / "a")
    assert paths(guard) == [str(root / "a/sub/.envrc")]
    assert not (root / "a/sub/.envrc").exists()


def test_no_file_elsewhere_is_renamed_through_a_link(
    root: Path, guard: NameGuard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.envrc").write_text("mine")
    with late_news(monkeypatch):
        (root / "a/sub/.envrc").write_text("evil")
        (root / "a/sub").rename(root / "a/other")
        (root / "a/sub").symlink_to(tmp_path / "home")
    assert str(root / "a/sub/.envrc") in paths(guard)
    assert (tmp_path / "home/.envrc").read_text() == "mine"


def test_what_was_there_and_what_the_host_makes_stays(root: Path) -> None:
    (root / ".envrc").write_text("old")
    guard = NameGuard()
    guard.begin({str(root): TOP})
    try:
        (root / "x").write_text("new")
        (root / "x").replace(root / ".envrc")
        allow_names((str(root / ".vscode/tasks.json"),))
        (root / ".vscode").mkdir()
        with pausing():
            (root / ".npmrc").write_text("")
        assert paths(guard) == []
        assert {".envrc", ".vscode", ".npmrc"} <= set(os.listdir(root))
        (root / ".gdbinit").write_text("")
        assert paths(guard) == [str(root / ".gdbinit")]
    finally:
        guard.end()


def test_only_a_replaced_link_is_taken_away(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / ".envrc").symlink_to("old")
    guard = NameGuard()
    guard.begin({str(root): TOP})
    try:
        with lost_news(monkeypatch):
            (root / "x").symlink_to("old")
            assert paths(guard) == []
        (root / "x").replace(root / ".envrc")
        assert paths(guard) == [str(root / ".envrc")]
    finally:
        guard.end()


@pytest.mark.parametrize("how", ["target", "time"])
def test_a_link_that_gets_the_inode_of_the_earlier_one_is_another(
    root: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """As ext4 does at once, and other file systems do not."""
    (root / ".envrc").symlink_to("old")
    guard = NameGuard()
    monkeypatch.setattr(name_guard, "birth_of", lambda _: 0)
    guard.begin({str(root): TOP})
    try:
        number = (root / ".envrc").lstat().st_ino
        lstat = os.lstat

        def same_number(path: str) -> os.stat_result:
            found = lstat(path)
            return os.stat_result((found.st_mode, number, *found[2:]))

        with late_news(monkeypatch):
            (root / ".envrc").unlink()
            (root / ".envrc").symlink_to("new" if how == "target" else "old")
        monkeypatch.setattr(name_guard.os, "lstat", same_number)
        monkeypatch.setattr(name_guard, "birth_of", lambda _: int(how == "time"))
        assert paths(guard) == [str(root / ".envrc")]
    finally:
        guard.end()


def test_a_directory_above_what_the_host_makes_stays_only_in_place(root: Path) -> None:
    guard = NameGuard()
    guard.begin({str(root / "a/sub"): TOP})
    for name in ("evil", "prepared"):
        (root / name).mkdir()
    sub = root / "a/sub"
    try:
        allow_names((str(sub / ".githooks/x"),))
        (root / "prepared").rename(sub / ".githooks")
        assert paths(guard) == [str(sub / ".githooks")]
        allow_names((str(sub / ".git/x"), str(sub / ".husky/x"), str(sub / ".cargo/x")))
        for name in (".git", ".husky", ".cargo"):
            (sub / name).mkdir()
            (sub / name / "x").write_text("mine")
        (sub / ".husky/_").mkdir()
        assert paths(guard) == []
        for name in (".git", ".husky", ".cargo"):
            (sub / name).rename(root / f"old{name}")
        (root / "evil").rename(sub / ".git")
        (sub / ".husky").mkdir()
        (sub / ".cargo").symlink_to("evil")
        assert paths(guard) == [str(sub / name) for name in (".git", ".husky", ".cargo")]
    finally:
        guard.end()


def test_what_the_host_does_to_a_directory_allows_nothing_in_it(root: Path, guard: NameGuard) -> None:
    allow_names((str(root), str(root / "a/sub"), str(root / ".git")))
    (root / ".envrc").write_text("evil")
    (root / "a/sub/.envrc").write_text("evil")
    (root / ".git/commondir").write_text("evil")
    assert paths(guard) == [str(root / name) for name in (".envrc", "a/sub/.envrc", ".git/commondir")]


def test_what_the_host_makes_may_appear_once_and_in_time(
    root: Path, guard: NameGuard, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow_names((str(root / ".envrc"), str(root / ".npmrc")))
    (root / ".envrc").symlink_to("mine")
    (root / ".npmrc").write_text("mine")
    (root / "x").write_text("mine, too")
    (root / "x").replace(root / ".npmrc")
    assert paths(guard) == []
    (root / "x").symlink_to("evil")
    (root / "x").replace(root / ".envrc")
    assert paths(guard) == [str(root / ".envrc")]
    monkeypatch.setattr(name_guard, "MAKING_SECONDS", 0.0)
    allow_names((str(root / ".gdbinit"), str(root / ".husky/x")))
    (root / ".gdbinit").write_text("evil")
    (root / ".husky").mkdir()
    assert paths(guard) == [str(root / ".gdbinit"), str(root / ".husky")]


@pytest.mark.parametrize("name", [".cargo", ".hg", ".config", "mise"])
def test_a_link_to_a_directory_with_protected_names_is_taken_away(
    root: Path, guard: NameGuard, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (root / "evil").mkdir()
    (root / name).symlink_to("evil")
    assert paths(guard) == [str(root / name)]
    (root / name).write_text("a file")  # such as that of the Linux kernel's build
    assert paths(guard) == []
    (root / name).unlink()
    (root / name).mkdir()
    assert paths(guard) == []
    (root / name).rmdir()
    with late_news(monkeypatch):
        (root / name).symlink_to("evil")
        (root / name).unlink()
    assert [each.sentence for each in guard.take()] == [VANISHED]


def test_only_an_earlier_link_to_such_a_directory_stays(root: Path) -> None:
    for name in (".cargo", ".hg"):
        (root / f"mine{name}").mkdir()
        (root / name).symlink_to(f"mine{name}")
    guard = NameGuard()
    guard.begin(found((str(root),), (), 300))
    try:
        (root / ".cargo").rename(root / "old")
        (root / "old").rename(root / ".cargo")
        (root / "mine.cargo/config.toml").write_text("evil")
        (root / "x").symlink_to("evil")
        (root / "x").replace(root / ".hg")
        assert paths(guard) == [str(root / "mine.cargo/config.toml"), str(root / ".hg")]
    finally:
        guard.end()


@pytest.mark.parametrize("kind", ["link", "directory", "repository"])
def test_what_a_directory_that_is_moved_in_brings_with_it_is_taken_away(
    root: Path, guard: NameGuard, kind: str
) -> None:
    (root / "b/sub/evil").mkdir(parents=True)
    if kind == "link":
        (root / "b/sub/.cargo").symlink_to("evil")
    elif kind == "directory":
        (root / "b/sub/.cargo").mkdir()
        (root / "b/sub/.cargo/config.toml").write_text("evil")
    else:
        (root / "b/sub/.git").mkdir()
    (root / "a").rename(root / "c")
    (root / "b").rename(root / "a")
    gone = {"link": ".cargo", "directory": ".cargo/config.toml", "repository": ".git"}[kind]
    assert paths(guard) == [str(root / "a/sub" / gone)]


def test_a_work_tree_can_be_made_again(root: Path, guard: NameGuard, monkeypatch: pytest.MonkeyPatch) -> None:
    with late_news(monkeypatch):
        (root / "a").rename(root / "c")
        (root / "a/sub").mkdir(parents=True)
        subprocess.run(["git", "init", "-q"], cwd=root / "a/sub", check=True)
    assert paths(guard) == []
    assert (root / "a/sub/.git/config").exists()


def test_names_stay_while_no_program_runs(root: Path, guard: NameGuard) -> None:
    guard.rest()
    (root / ".envrc").write_text("mine")
    guard.arm()
    (root / ".npmrc").write_text("evil")
    guard.rest()  # a statement runs, so this changes nothing
    (root / ".gdbinit").write_text("evil")
    assert paths(guard) == [str(root / ".npmrc"), str(root / ".gdbinit")]
    guard.disarm()
    (root / ".lldbinit").write_text("evil")  # by what the statement left running
    guard.rest()
    (root / ".vimrc").write_text("mine")
    assert paths(guard) == [str(root / ".lldbinit")]
    assert {".envrc", ".vimrc"} <= set(os.listdir(root))


def test_a_name_that_appears_again_and_again_ends_the_programs(root: Path, guard: NameGuard) -> None:
    ended: list[int] = []
    guard.end_programs = lambda: ended.append(1)
    for number in range(MOST_AGAIN):
        assert ended == []
        (root / ".envrc").write_text(str(number))
        assert guard.has_taken
    assert ended == [1]
    assert guard.take()[-1].sentence == ENDED
    assert moved_in(root) == ["0", "1", "2"]


@pytest.fixture
def ordinary_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a user whose directories may lack rights, whoever runs the test."""

    def has(path: str, rights: int) -> bool:
        return os.stat(path).st_mode & rights == rights

    @contextmanager
    def opened(path: str) -> Generator[int]:
        if not has(path, stat.S_IRWXU):
            raise PermissionError(errno.EACCES, "denied", path)
        with opened_directory(path) as directory:
            yield directory

    add = NameWatch.add
    monkeypatch.setattr(name_guard, "opened_directory", opened)
    monkeypatch.setattr(NameWatch, "add", lambda watch, path: add(watch, path) if has(path, stat.S_IRUSR) else None)


@pytest.mark.usefixtures("ordinary_user")
def test_a_name_in_a_directory_without_rights_is_taken_away(
    root: Path, guard: NameGuard, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    guard.end_programs = lambda: ended.append(1)
    with late_news(monkeypatch):
        (root / "a/sub/.envrc").symlink_to("evil")
        (root / "a/sub").chmod(0o555)
        (root / "a").chmod(0o511)
    assert guard.has_taken
    assert [stat.S_IMODE((root / name).stat().st_mode) for name in ("a", "a/sub")] == [0o711, 0o755]
    for name in ("c", "h"):
        (root / name).mkdir()
    (root / "c/config.toml").write_text("evil")
    (root / "h/hgrc").write_text("evil")
    for name in ("c", "h"):
        (root / name).chmod(0o311)
    (root / "c").rename(root / ".cargo")
    (root / "h").rename(root / ".hg")
    assert paths(guard) == [str(root / name) for name in ("a/sub/.envrc", ".cargo/config.toml", ".hg/hgrc")]
    (root / ".hg/sharedpath").write_text("evil")
    assert paths(guard) == [str(root / ".hg/sharedpath")]
    assert not ended


def test_the_programs_are_ended_if_a_name_cannot_be_renamed(
    root: Path, guard: NameGuard, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    guard.end_programs = lambda: ended.append(1)

    def denied(path: str) -> Generator[int]:
        raise PermissionError(errno.EACCES, "denied", path)

    monkeypatch.setattr(name_guard, "opened_directory", contextmanager(denied))
    (root / ".envrc").write_text("evil")
    assert [each.sentence for each in guard.take()] == [STAYED.format(reason="denied"), ENDED_STUCK]
    assert ended == [1]


@pytest.mark.parametrize("is_lost", [False, True], ids=["told", "lost"])
def test_a_link_in_place_of_a_watched_directory_is_taken_away(
    root: Path, guard: NameGuard, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    ended: list[int] = []
    guard.end_programs = lambda: ended.append(1)
    (root / "prep").mkdir()
    (root / "prep/.envrc").write_text("evil")
    with lost_news(monkeypatch) if is_lost else nullcontext():
        (root / "a/sub").rename(root / "gone")
        (root / "a/sub").symlink_to("../prep")
        assert paths(guard)[0] == str(root / "a/sub")
    assert not os.path.lexists(root / "a/sub")
    assert not ended


def test_a_link_that_appears_during_a_search_is_not_followed(
    root: Path, guard: NameGuard, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    guard.end_programs = lambda: ended.append(1)
    (root / "prep").mkdir()
    (root / "prep/.envrc").write_text("evil")
    add = NameWatch.add

    def add_late(watch: NameWatch, path: str) -> int | None:
        number = add(watch, path)
        if path == str(root / "a/sub") and not os.path.lexists(path):
            (root / "a/sub").symlink_to("../prep")
        return number

    monkeypatch.setattr(NameWatch, "add", add_late)
    with lost_news(monkeypatch):
        (root / "a/sub").rename(root / "gone")
        ends_at = time.monotonic() + SECONDS
        while (taken := paths(guard)) == []:
            assert time.monotonic() < ends_at
    assert set(taken) == {str(root / "a/sub")}
    assert not ended


def test_only_a_replaced_directory_is_no_link_that_may_stay(root: Path, guard: NameGuard) -> None:
    guard.rest()
    (root / "a/sub").rename(root / "mine")
    (root / "a/sub").symlink_to("../mine")
    guard.arm()
    (root / "a/sub/.envrc").write_text("evil")
    assert str(root / "a/sub") not in paths(guard)
    assert (root / "a/sub").is_symlink()


def test_lost_news_lead_to_a_search(root: Path, guard: NameGuard, monkeypatch: pytest.MonkeyPatch) -> None:
    with lost_news(monkeypatch):
        (root / ".git/commondir").write_text("evil")
        (root / ".envrc").write_text("evil")
        assert sorted(set(paths(guard))) == [str(root / ".envrc"), str(root / ".git/commondir")]
        (root / "evil").mkdir()
        (root / "evil").rename(root / "a/sub/.git")
        assert paths(guard) == [str(root / "a/sub/.git")]


def watches() -> int:
    """How many watches this process has open."""
    numbers = (f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd"))
    return sum(os.path.lexists(each) and os.readlink(each) == "anon_inode:inotify" for each in numbers)


def threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "rewindow-names"]


def test_the_end_closes_all(root: Path) -> None:
    for each in threads():
        each.join(SECONDS)  # those of ended guards close their watches now
    others, before = threads(), watches()
    guard = NameGuard()
    guard.begin({str(root): TOP})
    (thread,) = set(threads()).difference(others)
    assert watches() == before + 1
    guard.end()
    thread.join(SECONDS)
    assert not thread.is_alive()
    assert watches() == before
    (root / ".envrc").write_text("mine")
    assert paths(guard) == []
    assert (root / ".envrc").exists()


@pytest.mark.anyio
async def test_tools_and_rewinds_of_any_session_make_names_that_stay(root: Path, tmp_path: Path) -> None:
    """Another session's statement runs in the same directory."""
    guard = NameGuard()
    async with session_in(root, state=tmp_path / "state", environments=in_process) as session:
        guard.begin({str(root): TOP})
        try:
            await session.cell("n = write('.envrc', 'mine')")
            assert paths(guard) == []
            await session.rewind(0)
            assert not (root / ".envrc").exists()
            guard.end()
            guard.begin({str(root): TOP})
            await session.switch("main")
            assert paths(guard) == []
            assert (root / ".envrc").read_text() == "mine"
        finally:
            guard.end()
