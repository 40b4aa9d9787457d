"""A file is as before or as after, keeps what belongs to it, and nothing lands outside of the workspace."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.session.tools.change import Change
from engine.session.tools.landing import land
from engine.session.tools.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "project").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "theirs").write_bytes(b"theirs")
    return Workspace(str(tmp_path / "project"), records=str(tmp_path / "state" / "writing"))


def at(workspace: Workspace, name: str) -> Path:
    return Path(workspace.cwd, name)


def put(workspace: Workspace, name: str, before: bytes | None, after: bytes) -> None:
    land(workspace, Change(path=str(at(workspace, name)), protected="", before=before, after=after, value=None))


def everything(workspace: Workspace) -> dict[str, bytes | None]:
    """What there is below the workspace and beside it, directories as None."""
    root = Path(workspace.cwd).parent
    found = [path for path in root.rglob("*") if "state" not in path.parts]
    return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in found}


def test_a_new_file_is_made_with_the_directories_above_it(workspace: Workspace) -> None:
    old = os.umask(0o027)
    try:
        put(workspace, "a/b/c.txt", None, b"new")
    finally:
        os.umask(old)
    assert at(workspace, "a/b/c.txt").read_bytes() == b"new"
    modes = [stat.S_IMODE(at(workspace, name).stat().st_mode) for name in ("a", "a/b", "a/b/c.txt")]
    assert modes == [0o750, 0o750, 0o640]
    assert os.listdir(at(workspace, "a/b")) == ["c.txt"]


@pytest.mark.parametrize("missing", ["refs", "objects"])
def test_no_directory_is_made_that_makes_other_files_a_repository(workspace: Workspace, missing: str) -> None:
    for name in {"objects", "refs"} - {missing}:
        at(workspace, name).mkdir()
    at(workspace, "HEAD").write_text("ref: refs/heads/main\n")
    with pytest.raises(OSError, match="has changed since the change was requested"):
        put(workspace, f"{missing}/a", None, b"")
    assert not at(workspace, missing).exists()


def test_no_descriptor_is_left_open(workspace: Workspace) -> None:
    at(workspace, "a").write_bytes(b"same")
    before, times = psutil.Process().num_fds(), 20
    for _ in range(times):
        put(workspace, "a", b"same", b"same")
    assert psutil.Process().num_fds() < before + times


def test_new_content_of_a_private_file_is_private_from_the_start(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, modes, give = at(workspace, "key"), list[int](), os.fchown
    path.write_bytes(b"old")
    path.chmod(0o600)

    def look(descriptor: int, user: int, group: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        give(descriptor, user, group)

    monkeypatch.setattr(os, "fchown", look)
    put(workspace, "key", b"old", b"new")
    assert modes == [0o600]


def test_a_replaced_file_keeps_its_permissions_owner_and_attributes_but_gives_nobody_its_owners_rights(
    workspace: Workspace,
) -> None:
    path = at(workspace, "script")
    path.write_bytes(b"old")
    path.chmod(0o4751)
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
        path.chmod(0o4751)
    attributes = {}
    try:
        os.setxattr(path, "user.kept", b"1")
        attributes = {"user.kept": b"1"}
    except OSError:
        pass  # a file system without them has none to keep
    before = path.stat()
    put(workspace, "script", b"old", b"new")
    after = path.stat()
    assert path.read_bytes() == b"new"
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert stat.S_IMODE(after.st_mode) == 0o751
    assert {name: os.getxattr(path, name) for name in attributes} == attributes


def test_hard_link_is_broken_and_the_other_name_unchanged(workspace: Workspace) -> None:
    os.link(Path(workspace.cwd).parent / "outside" / "theirs", at(workspace, "linked"))
    put(workspace, "linked", b"theirs", b"ours")
    assert at(workspace, "linked").read_bytes() == b"ours"
    assert (Path(workspace.cwd).parent / "outside" / "theirs").read_bytes() == b"theirs"


def test_what_is_open_goes_on_with_the_old_content(workspace: Workspace) -> None:
    at(workspace, "a").write_bytes(b"old content")
    with at(workspace, "a").open("rb") as file:
        put(workspace, "a", b"old content", b"new")
        assert file.read() == b"old content"


@pytest.mark.parametrize(
    ("before", "present"),
    [(b"asked", b"saved by the user"), (b"asked", b"asked and more"), (None, b"made"), (b"asked", None)],
)
def test_file_changed_since_the_question_is_left_alone(
    workspace: Workspace, before: bytes | None, present: bytes | None
) -> None:
    if present is not None:
        at(workspace, "a").write_bytes(present)
    left = everything(workspace)
    with pytest.raises(OSError, match="since the change was requested") as refused:
        put(workspace, "a", before, b"new")
    assert refused.value.errno == errno.ESTALE
    assert everything(workspace) == left
    if before is not None and present == b"saved by the user":
        assert "-asked\n+saved by the user" in str(refused.value)


def test_the_same_content_again_touches_nothing(workspace: Workspace) -> None:
    at(workspace, "a").write_bytes(b"same")
    before = at(workspace, "a").stat()
    put(workspace, "a", b"same", b"same")
    assert (at(workspace, "a").stat().st_ino, at(workspace, "a").stat().st_mtime_ns) == (
        before.st_ino,
        before.st_mtime_ns,
    )


def test_place_that_became_a_link_is_refused(workspace: Workspace) -> None:
    at(workspace, "folder").mkdir()
    at(workspace, "other").mkdir()
    at(workspace, "folder").rmdir()
    at(workspace, "folder").symlink_to("other")
    with pytest.raises(OSError, match=r"the place of folder/a has changed"):
        put(workspace, "folder/a", None, b"new")
    assert not at(workspace, "other/a").exists()


@pytest.mark.parametrize("name", ["../outside/theirs", "link/theirs", "direct", "link/new/file", "../project-evil/x"])
def test_nothing_lands_outside(workspace: Workspace, name: str) -> None:
    at(workspace, "link").symlink_to("../outside")
    at(workspace, "direct").symlink_to("../outside/theirs")
    left = everything(workspace)
    with pytest.raises(PermissionError, match="outside the workspace"):
        put(workspace, name, b"theirs", b"ours")
    assert everything(workspace) == left


def fail(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


REAL_OPEN = os.open


def open_full(path: str, flags: int, *rest: int, **where: int) -> int:
    """What is made is /dev/full: put below the descriptor, because it cannot be put in place of the file."""
    descriptor = REAL_OPEN(path, flags, *rest, **where)
    if flags & os.O_EXCL:
        full = REAL_OPEN("/dev/full", os.O_WRONLY)
        os.dup2(full, descriptor)
        os.close(full)
    return descriptor


@pytest.mark.parametrize("name", ["a", "x/y/z"])
@pytest.mark.parametrize("call", ["open", "fsync", "rename"])
def test_a_full_disk_leaves_nothing_behind(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, call: str, name: str
) -> None:
    at(workspace, "a").write_bytes(b"old")
    left = everything(workspace)
    monkeypatch.setattr("engine.runtime.system.names.rename_to_nothing", lambda *_: False)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, open_full if call == "open" else fail)
        with pytest.raises(OSError, match="No space left on device; nothing was written") as refused:
            put(workspace, name, b"old" if name == "a" else None, b"new" * 100_000)
    assert refused.value.filename == str(at(workspace, name))
    assert everything(workspace) == left
    assert not list(Path(workspace.cwd).parent.glob("state/writing/*"))


@pytest.fixture
def swapping(workspace: Workspace) -> Iterator[None]:
    """`folder` and `file` are exchanged for links that lead outside and back, as fast as a thread can."""
    project, ended = Path(workspace.cwd), threading.Event()
    for name in ("folder", "aside"):
        (project / name).mkdir()
    (project / "swapped").symlink_to("../outside")
    (project / "swapped-file").symlink_to("../outside/theirs")

    def swap() -> None:
        while not ended.is_set():
            for here, there in (("folder", "swapped"), ("file", "swapped-file")):
                kept = project / f"kept-{here}"
                for source, target in ((here, kept), (there, here), (here, there), (kept, here)):
                    try:
                        os.rename(project / source, project / target)
                    except OSError:
                        continue

    thread = threading.Thread(target=swap)
    thread.start()
    yield
    ended.set()
    thread.join(10)


@pytest.mark.usefixtures("swapping")
@pytest.mark.parametrize("rounds", [40, pytest.param(1_500, marks=pytest.mark.slow)])
def test_nothing_lands_outside_while_links_are_swapped(workspace: Workspace, rounds: int) -> None:
    outside = Path(workspace.cwd).parent / "outside"
    landed = 0
    for number in range(rounds):
        for name in ("folder/file", "file", f"folder/new-{number}/file"):
            try:
                put(workspace, name, None, b"ours")
                landed += 1
            except OSError:
                continue
        assert sorted(os.listdir(outside)) == ["theirs"]
        assert (outside / "theirs").read_bytes() == b"theirs"
    assert landed


# --- somebody else acts at a certain moment ---------------------------------------------------------------------------

REAL_FSYNC, REAL_STAT = os.fsync, os.stat


def while_made_durable(patch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Has `act` happen when the new content is written and not yet in place."""

    def fsync(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            act()
        REAL_FSYNC(descriptor)

    patch.setattr(os, "fsync", fsync)


def test_file_lands_in_a_directory_exchanged_meanwhile(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, outside = at(workspace, "folder"), Path(workspace.cwd).parent / "outside"
    folder.mkdir()
    (folder / "theirs").write_bytes(b"ours before")

    def exchange() -> None:
        folder.rename(at(workspace, "moved"))
        folder.symlink_to(outside)

    while_made_durable(monkeypatch, exchange)
    put(workspace, "folder/theirs", b"ours before", b"ours")
    assert (outside / "theirs").read_bytes() == b"theirs"
    assert at(workspace, "moved/theirs").read_bytes() == b"ours"
    assert os.listdir(outside) == os.listdir(at(workspace, "moved")) == ["theirs"]


@pytest.mark.parametrize("before", [b"asked", None])
def test_file_saved_during_the_act_is_left_alone(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, before: bytes | None
) -> None:
    if before is not None:
        at(workspace, "a").write_bytes(before)
    while_made_durable(monkeypatch, lambda: at(workspace, "a").write_bytes(b"saved"))
    with pytest.raises(OSError, match="since the change was requested"):
        put(workspace, "a", before, b"new")
    assert at(workspace, "a").read_bytes() == b"saved"
    assert os.listdir(workspace.cwd) == ["a"]


def test_file_made_at_the_last_moment_is_not_replaced(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def stat_and_make(path: str, **options: Any) -> os.stat_result:
        try:
            return REAL_STAT(path, **options)
        except FileNotFoundError:
            if "dir_fd" in options:  # the last look before the act
                at(workspace, "a").write_bytes(b"theirs")
            raise

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", stat_and_make)
        with pytest.raises(OSError, match="since the change was requested"):
            put(workspace, "a", None, b"new")
    assert at(workspace, "a").read_bytes() == b"theirs"
    assert os.listdir(workspace.cwd) == ["a"]


def test_content_and_names_are_durable_when_it_has_landed(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, bool]] = []

    def fsync(descriptor: int) -> None:
        place = os.readlink(f"/proc/self/fd/{descriptor}")
        synced.append((os.path.basename(place), at(workspace, "x/y/a").exists()))
        REAL_FSYNC(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    put(workspace, "x/y/a", None, b"new")
    (first, second, content, folder) = synced
    assert [first, second, folder] == [("project", False), ("x", False), ("y", True)]
    assert content[0].startswith(".rewindow-")
    assert content[1] is False
