"""A file that is to hold again what it held: replaced as a whole, or left as it is with the reason."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import xxhash

from engine.core.execution import DIRECTORY, LINK
from engine.core.ids import BlobDigest
from engine.files.safe_open import LARGEST, OUTSIDE, pinned
from engine.log.events.going_back import FileToRestore
from engine.session.tools import Replaced, Workspace, restore

CHANGED: Final = "the file has changed since the session last wrote it"
REMOVED: Final = "the file was removed since the session last wrote it"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "project").mkdir()
    (tmp_path / "outside").mkdir()
    return Workspace(str(tmp_path / "project"), records=str(tmp_path / "state" / "writing"))


def digest(data: bytes | None) -> str:
    return "" if data is None else xxhash.xxh3_64_hexdigest(data)


def put_back(
    workspace: Workspace,
    name: str,
    present: bytes | None,
    wanted: bytes | None,
    mark: str = "",
    mode: int | None = None,
    present_mode: int | None = None,
) -> Replaced | None:
    """As a rewind does; `mark` stands for the digest of what is there."""
    file = FileToRestore(
        path=os.path.join(workspace.cwd, name),
        present_digest=mark or digest(present),
        present_mode=present_mode,
        wanted=None if wanted is None else BlobDigest("b"),
        wanted_digest=digest(wanted),
        wanted_mode=mode,
    )
    return restore(workspace, file, wanted)


def refused(
    workspace: Workspace, name: str, present: bytes | None, wanted: bytes | None, present_mode: int | None = None
) -> str:
    try:
        put_back(workspace, name, present, wanted, present_mode=present_mode)
    except OSError as error:
        return error.strerror or str(error)
    raise AssertionError(name)


def at(workspace: Workspace, name: str) -> Path:
    return Path(workspace.cwd, name)


def test_file_gets_back_its_content_and_keeps_its_mode(workspace: Workspace) -> None:
    path = at(workspace, "run.sh")
    path.write_bytes(b"new")
    path.chmod(0o754)
    assert put_back(workspace, "run.sh", b"new", b"old") == Replaced(b"new")
    assert path.read_bytes() == b"old"
    assert stat.S_IMODE(path.stat().st_mode) == 0o754
    assert os.listdir(workspace.cwd) == ["run.sh"]


@pytest.mark.parametrize(("wanted", "kept"), [(0o750, 0o750), (0o6711, 0o711), (None, 0o644)])
def test_a_file_that_was_removed_comes_back_with_its_mode(workspace: Workspace, wanted: int | None, kept: int) -> None:
    old = os.umask(0o022)
    try:
        put_back(workspace, "a", None, b"old", mode=wanted)
    finally:
        os.umask(old)
    assert stat.S_IMODE(at(workspace, "a").stat().st_mode) == kept


@pytest.mark.parametrize(
    ("present", "wanted", "kept"), [(0o600, 0o755, 0o755), (0o4755, 0o755, 0o755), (0o600, None, 0o600)]
)
def test_a_file_that_was_replaced_gets_its_mode_back(
    workspace: Workspace, present: int, wanted: int | None, kept: int
) -> None:
    at(workspace, "a").write_bytes(b"new")
    at(workspace, "a").chmod(present)
    put_back(workspace, "a", b"new", b"old", mode=wanted)
    assert stat.S_IMODE(at(workspace, "a").stat().st_mode) == kept


def test_made_file_goes_and_removed_one_returns(workspace: Workspace) -> None:
    at(workspace, "made").write_bytes(b"x")
    assert put_back(workspace, "made", b"x", None) == Replaced(b"x")
    assert put_back(workspace, "gone/with/its/directories", None, b"y") == Replaced(None)
    assert not at(workspace, "made").exists()
    assert at(workspace, "gone/with/its/directories").read_bytes() == b"y"


def test_permissions_alone_come_back(workspace: Workspace) -> None:
    path = at(workspace, "run.sh")
    path.write_bytes(b"same")
    path.chmod(0o644)
    assert put_back(workspace, "run.sh", b"same", b"same", mode=0o750, present_mode=0o644) == Replaced(b"same")
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert put_back(workspace, "run.sh", b"same", b"same", mode=None, present_mode=0o750) is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


def _state(folder: int) -> str | None:
    """What has the name `a` in a directory: the digest that stands for it."""
    try:
        return f"{LINK}{digest(os.readlink(b'a', dir_fd=folder))}"
    except FileNotFoundError:
        return ""
    except OSError:
        with contextlib.suppress(IsADirectoryError), open("a", "rb", opener=partial(os.open, dir_fd=folder)) as file:
            return digest(file.read())
        return DIRECTORY


_STATES: Final[dict[str, tuple[Callable[[Path], object], bytes | None]]] = {
    "": (lambda path: None, None),
    digest(b"x"): (lambda path: path.write_bytes(b"x"), b"x"),
    f"{LINK}{digest(b'there')}": (lambda path: path.symlink_to("there"), b"there"),
    DIRECTORY: (Path.mkdir, None),
}


@pytest.mark.parametrize("present", _STATES)
@pytest.mark.parametrize("wanted", _STATES)
def test_a_change_of_a_name_is_durable_before_the_call_returns(workspace: Workspace, present: str, wanted: str) -> None:
    """Also if it is there already: a process that was killed may have made it, and nothing durable."""
    _STATES[present][0](at(workspace, "a"))
    file = FileToRestore(
        path=os.path.join(workspace.cwd, "a"), present_digest=present, wanted=None, wanted_digest=wanted
    )
    synced: list[str | None] = []
    restore(workspace, file, _STATES[wanted][1], sync=lambda folder: synced.append(_state(folder)))
    assert synced[-1:] == [wanted]


def test_a_file_that_holds_it_already_is_not_touched(workspace: Workspace) -> None:
    path = at(workspace, "a")
    path.write_bytes(b"old")
    before = path.stat()
    assert put_back(workspace, "a", b"new", b"old") is None
    assert put_back(workspace, "never/there", b"new", None) is None
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert os.listdir(workspace.cwd) == ["a"]


def test_files_changed_by_others_are_left_and_named(workspace: Workspace) -> None:
    at(workspace, "changed").write_bytes(b"by hand")
    at(workspace, "again").write_bytes(b"made anew")
    assert refused(workspace, "changed", b"new", b"old") == CHANGED
    assert refused(workspace, "changed", b"new", None) == CHANGED
    assert refused(workspace, "again", None, b"old") == CHANGED
    assert refused(workspace, "removed", b"new", b"old") == REMOVED
    assert refused(workspace, "no/such/directory", b"new", b"old") == REMOVED
    assert {path.name: path.read_bytes() for path in Path(workspace.cwd).iterdir()} == {
        "changed": b"by hand",
        "again": b"made anew",
    }


def test_unread_content_is_recognized_by_its_file_state(workspace: Workspace) -> None:
    path = at(workspace, "large")
    with path.open("wb") as file:
        file.truncate(LARGEST + 1)
    found = pinned(str(path))
    found.close()
    assert refused(workspace, "large", b"new", b"old") == CHANGED
    assert put_back(workspace, "large", None, b"old", found.mark) == Replaced(None)
    assert path.read_bytes() == b"old"


def _link(project: Path, outside: Path) -> str:
    (project / "linked").symlink_to(outside)
    return "linked/a"


def _link_inside(project: Path, outside: Path) -> str:
    (project / "b").write_bytes(b"new")
    (project / "linked").symlink_to("b")
    return "linked"


def _directory(project: Path, outside: Path) -> str:
    (project / "dir").mkdir()
    return "dir"


def _pipe(project: Path, outside: Path) -> str:
    os.mkfifo(project / "pipe")
    return "pipe"


def _below_a_file(project: Path, outside: Path) -> str:
    (project / "file").write_bytes(b"x")
    return "file/a"


def _no_text(project: Path, outside: Path) -> str:
    return "caf\ufffd"


def _outside(project: Path, outside: Path) -> str:
    return str(outside / "a")


PLACES: dict[Callable[[Path, Path], str], str] = {
    _link: OUTSIDE,
    _link_inside: CHANGED,
    _outside: OUTSIDE,
    _directory: CHANGED,
    _pipe: "the path leads to a named pipe, not a regular file",
    _below_a_file: "Not a directory",
    _no_text: "the name is not UTF-8, and the file does not exist any more",
}


@pytest.mark.parametrize("make", PLACES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("wanted", [b"old", None])
def test_place_outside_regular_workspace_files_is_left_and_named(
    workspace: Workspace, make: Callable[[Path, Path], str], wanted: bytes | None
) -> None:
    outside = Path(workspace.cwd).parent / "outside"
    (outside / "a").write_bytes(b"new")
    reason = refused(workspace, make(Path(workspace.cwd), outside), b"new", wanted)
    assert reason.startswith(PLACES[make])
    assert [path.read_bytes() for path in outside.iterdir()] == [b"new"]


def test_name_that_is_not_text_is_found_if_unambiguous(workspace: Workspace) -> None:
    path = os.path.join(os.fsencode(workspace.cwd), b"caf\xe9")
    with open(path, "wb") as file:
        file.write(b"new")
    assert put_back(workspace, "caf\ufffd", b"new", b"old") == Replaced(b"new")
    with open(path, "rb") as file:
        assert file.read() == b"old"


def test_change_between_look_and_act_is_kept(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    path = at(workspace, "a")
    path.write_bytes(b"new")
    fsync = os.fsync

    def saved_meanwhile(descriptor: int) -> None:
        fsync(descriptor)
        path.write_bytes(b"by hand, meanwhile")

    monkeypatch.setattr(os, "fsync", saved_meanwhile)
    assert refused(workspace, "a", b"new", b"old") == CHANGED
    assert path.read_bytes() == b"by hand, meanwhile"
    assert os.listdir(workspace.cwd) == ["a"]


def test_a_change_that_comes_right_before_a_removal_is_kept(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = at(workspace, "a")
    path.write_bytes(b"new")
    may = os.access

    def saved_meanwhile(*arguments: Any, **named: Any) -> bool:
        path.write_bytes(b"by hand, meanwhile")
        return may(*arguments, **named)

    monkeypatch.setattr(os, "access", saved_meanwhile)
    assert refused(workspace, "a", b"new", None) == CHANGED
    assert path.read_bytes() == b"by hand, meanwhile"


@pytest.mark.parametrize("wanted", [b"old", None])
@pytest.mark.parametrize(("written", "found"), [(0o644, 0o444), (0o644, 0o755), (0o755, 0o4755), (0o644, 0o2644)])
def test_permissions_that_somebody_else_has_changed_are_kept_and_named(
    workspace: Workspace, wanted: bytes | None, written: int, found: int
) -> None:
    path = at(workspace, "a")
    path.write_bytes(b"new")
    path.chmod(found)
    reason = refused(workspace, "a", b"new", wanted, present_mode=written)
    assert reason == f"the permissions have changed since the session last wrote the file: {written:o} -> {found:o}"
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", found)


@pytest.mark.parametrize(("written", "found"), [(0o644, 0o644), (0o4755, 0o755), (0o4755, 0o4755), (None, 0o400)])
def test_permissions_that_the_session_has_left_are_no_conflict(
    workspace: Workspace, written: int | None, found: int
) -> None:
    at(workspace, "a").write_bytes(b"new")
    at(workspace, "a").chmod(found)
    assert put_back(workspace, "a", b"new", b"old", mode=0o640, present_mode=written) == Replaced(b"new")
    assert stat.S_IMODE(at(workspace, "a").stat().st_mode) & 0o777 == 0o640


def test_file_that_needs_nothing_keeps_its_permissions(workspace: Workspace) -> None:
    at(workspace, "a").write_bytes(b"old")
    at(workspace, "a").chmod(0o444)
    assert put_back(workspace, "a", b"new", b"old", mode=0o644, present_mode=0o644) is None
    assert stat.S_IMODE(at(workspace, "a").stat().st_mode) == 0o444


def test_permissions_that_change_right_before_the_act_are_kept(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = at(workspace, "a")
    path.write_bytes(b"new")
    fsync = os.fsync

    def changed_meanwhile(descriptor: int) -> None:
        fsync(descriptor)
        path.chmod(0o444)

    monkeypatch.setattr(os, "fsync", changed_meanwhile)
    assert refused(workspace, "a", b"new", b"old") == CHANGED
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o444)


def test_replaced_file_keeps_attributes_and_removal_respects_them(workspace: Workspace) -> None:
    path = at(workspace, "a")
    path.write_bytes(b"new")
    try:
        os.setxattr(path, "user.by_hand", b"1")
    except OSError as error:
        pytest.skip(f"this file system has no attributes: {error.strerror}")
    reason = refused(workspace, "a", b"new", None)
    assert reason == "attributes were added since the session last wrote the file: user.by_hand"
    put_back(workspace, "a", b"new", b"old")
    assert (path.read_bytes(), os.getxattr(path, "user.by_hand")) == (b"old", b"1")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_replaced_file_keeps_its_given_owner(workspace: Workspace) -> None:
    path = at(workspace, "a")
    path.write_bytes(b"new")
    os.chown(path, 12345, 54321)
    put_back(workspace, "a", b"new", b"old", present_mode=0o644, mode=0o600)
    found = path.stat()
    assert (path.read_bytes(), found.st_uid, found.st_gid) == (b"old", 12345, 54321)


@pytest.mark.parametrize("missing", ["refs", "objects"])
def test_what_completes_a_repository_is_not_restored_from_what_a_statement_made(
    workspace: Workspace, missing: str
) -> None:
    project = Path(workspace.cwd)
    for name in {"objects", "refs"} - {missing}:
        (project / name).mkdir()
    (project / "HEAD").write_text("ref: refs/heads/main\n")
    file = FileToRestore(
        path=str(project / missing / "a"),
        present_digest="",
        wanted=BlobDigest("b"),
        wanted_digest=digest(b"text"),
    )
    with pytest.raises(PermissionError, match="makes the directory a repository"):
        restore(workspace, file, b"text", is_trusted=False)
    assert not (project / missing).exists()
    restore(workspace, file, b"text")
    assert (project / missing / "a").read_bytes() == b"text"
