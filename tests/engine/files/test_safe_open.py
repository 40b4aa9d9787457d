"""Only regular files inside the roots are opened, never blocking, even while links are swapped; the search path."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from engine.files.safe_open import (
    ANOTHER,
    PIECE,
    Held,
    SyncedTogether,
    is_kept_out,
    keep_out,
    opened_directory,
    opened_file,
    own_below,
    pinned,
    place_to_write,
    real_roots,
    same_directory,
    search_path,
)


def first_bytes(path: object, roots: tuple[str, ...] | None = None) -> bytes:
    with opened_file(str(path), roots) as file:
        return file.read(64)


def names(path: object, roots: tuple[str, ...] | None = None) -> list[str]:
    with opened_directory(str(path), roots) as directory:
        return sorted(os.listdir(directory))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a file, beside a place that begins with the same letters and holds what must not be read."""
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "inside").write_bytes(b"inside")
    (tmp_path / "root-outside").mkdir()
    (tmp_path / "root-outside" / "outside").write_bytes(b"outside")
    return tmp_path / "root"


@pytest.fixture
def own(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is this program's own in the root."""
    monkeypatch.setattr("engine.files.safe_open._own", set())
    (root / "home/state").mkdir(parents=True)
    (root / "home/state/token").write_bytes(b"token")
    keep_out(root / "home/state")
    return root / "home/state"


def test_what_is_kept_out_is_told_from_what_is_around_it(root: Path, own: Path) -> None:
    (root / "link").symlink_to(own)
    assert [is_kept_out(str(each)) for each in (own, own / "in it", root / "link")] == [True] * 3
    assert [is_kept_out(str(each)) for each in (own.parent, root, f"{own}2")] == [False] * 3


def test_what_is_kept_out_is_in_no_root_around_it(root: Path, own: Path) -> None:
    (root / "link").symlink_to(own)
    for path in (own / "token", root / "link/token", root / "home/../home/state/token"):
        with pytest.raises(PermissionError, match="holds Rewindow's sessions"):
            first_bytes(path, (str(root),))
        with pytest.raises(PermissionError, match="holds Rewindow's sessions"), place_to_write(str(path), (str(root),)):
            pass
    with pytest.raises(PermissionError, match="holds Rewindow's sessions"):
        names(own, (str(root),))
    for path in (own, own.parent):
        with pytest.raises(PermissionError, match="holds Rewindow's sessions"), place_to_write(str(path), (str(root),)):
            pass
    with place_to_write(str(root / "home/new"), (str(root),)) as place:
        assert place.path == str(root / "home/new")
    assert own_below(str(root)) == ("home/state",)
    assert own_below(str(own)) == ()


def test_a_root_within_what_is_kept_out_is_one(root: Path, own: Path) -> None:
    assert first_bytes(own / "token", (str(own),)) == b"token"
    assert first_bytes(root / "inside", (str(root),)) == b"inside"


def test_a_root_inside_another_counts_while_it_is_there(root: Path) -> None:
    inner = root / "packages/a"
    inner.mkdir(parents=True)
    roots = (str(root), str(inner))
    assert real_roots(roots) == roots
    inner.rmdir()
    inner.symlink_to(root.parent / "root-outside")
    assert real_roots(roots) == (str(root),)
    with pytest.raises(PermissionError):
        first_bytes(inner / "outside", roots)
    inner.unlink()
    inner.parent.rmdir()
    (root / "packages").symlink_to(root.parent / "root-outside")
    (root.parent / "root-outside/a").mkdir()
    assert real_roots(tuple(reversed(roots))) == (str(root),)


def test_a_root_that_was_resolved_is_where_it_was(root: Path) -> None:
    roots = (Held(root),)
    root.rename(root.parent / "moved")
    root.symlink_to(root.parent / "root-outside")
    with pytest.raises(PermissionError):
        first_bytes(root / "outside", roots)
    with pytest.raises(PermissionError), place_to_write(str(root / "new"), roots):
        pass


def test_files_and_directories_inside_are_opened_through_links(root: Path) -> None:
    (root / "again").symlink_to("inside")
    (root.parent / "alias").symlink_to(root)
    alias = root.parent / "alias"
    assert first_bytes(alias / "again", (str(alias),)) == b"inside"
    assert names(alias, (str(root),)) == ["again", "inside"]
    assert first_bytes(root / "inside", (os.sep,)) == b"inside"


@pytest.mark.parametrize(
    "make",
    [
        lambda root: root / ".." / "root-outside" / "outside",
        lambda root: link(root / "link", root.parent / "root-outside" / "outside"),
        lambda root: link(root / "folder", root.parent / "root-outside") / "outside",
        lambda root: link(root / "missing", root.parent / "root-outside" / "nothing"),
        lambda root: root.parent / "nothing",
    ],
)
def test_what_lies_outside_is_refused_whether_it_exists_or_not(root: Path, make: Callable[[Path], Path]) -> None:
    path = make(root)
    for opened in (first_bytes, names):
        with pytest.raises(PermissionError, match="outside the workspace"):
            opened(path, (str(root),))


def link(path: Path, target: Path) -> Path:
    path.symlink_to(target)
    return path


def test_what_is_pinned_has_a_kind(root: Path) -> None:
    (root / "missing").symlink_to("nowhere")
    os.mkfifo(root / "pipe")
    found: dict[str, str] = {}
    for name in ("inside", "", "pipe", "missing"):
        with closing(pinned(root / name)) as each:
            found[name] = each.kind
    assert found == {"inside": "file", "": "directory", "pipe": "other", "missing": "nothing"}
    descriptor = os.memfd_create("nameless")
    with closing(pinned(descriptor)) as nameless:
        assert nameless.kind == "other"
    os.close(descriptor)


@pytest.mark.parametrize(
    ("limit", "expected"), [(2 * PIECE + 2, [PIECE, PIECE, 1]), (PIECE + 1, [PIECE, PIECE]), (PIECE, [PIECE]), (0, [])]
)
def test_a_pinned_file_is_read_in_pieces_up_to_a_limit(root: Path, limit: int, expected: list[int]) -> None:
    content = os.urandom(2 * PIECE + 1)
    (root / "long").write_bytes(content)
    with closing(pinned(root / "long")) as each:
        pieces = list(each.pieces(limit))
    assert [len(piece) for piece in pieces] == expected
    assert content.startswith(b"".join(pieces))


def test_without_roots_every_place_is_open(root: Path) -> None:
    assert first_bytes(root.parent / "root-outside" / "outside") == b"outside"


@pytest.mark.parametrize("roots", [None, ("/",)])
def test_special_files_are_named_and_do_not_block(root: Path, roots: tuple[str, ...] | None) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "socket"))
        for path, kind in ((root / "pipe", "a named pipe"), (root / "socket", "a socket"), ("/dev/zero", "a device")):
            with pytest.raises(OSError, match=f"{kind}, not a regular file") as refused:
                first_bytes(path, roots)
            assert refused.value.filename == str(path)
            with pytest.raises(NotADirectoryError):
                names(path, roots)
    with pytest.raises(IsADirectoryError):
        first_bytes(root, roots)


@pytest.mark.parametrize("path", ["/proc/self/environ", "/proc/1/cmdline", "/proc/self/root/proc/self/environ"])
def test_procfs_is_refused_by_its_type(root: Path, path: str) -> None:
    (root / "innocent").symlink_to(path)
    for spelling in (path, root / "innocent"):
        with pytest.raises(PermissionError, match="procfs"):
            first_bytes(spelling, ("/",))
    with pytest.raises(PermissionError, match="procfs"):
        names("/proc/self", ("/",))


def test_a_descriptor_is_judged_by_its_open_file(root: Path) -> None:
    with open(root / "inside", "rb") as inside, open(root.parent / "root-outside" / "outside", "rb") as outside:
        assert first_bytes(f"/proc/self/fd/{inside.fileno()}", (str(root),)) == b"inside"
        with pytest.raises(PermissionError, match="outside the workspace"):
            first_bytes(f"/proc/self/fd/{outside.fileno()}", (str(root),))


def test_missing_unreadable_and_impossible_paths_are_the_operating_systems_errors(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        first_bytes(root / "none", (str(root),))
    with pytest.raises(NotADirectoryError):
        names(root / "inside", (str(root),))
    with pytest.raises(ValueError, match="NUL"):
        first_bytes(root / "a\0b", (str(root),))


def test_a_swapped_link_leads_to_nothing_outside(root: Path) -> None:
    (root / "a").mkdir()
    (root / "a" / "name").write_bytes(b"inside")
    (root.parent / "root-outside" / "name").write_bytes(b"outside")
    ended = threading.Event()

    def swap() -> None:
        targets = (root / "a", root.parent / "root-outside")
        turn = 0
        while not ended.is_set():
            turn += 1
            os.symlink(targets[turn % 2], root / "next")
            os.rename(root / "next", root / "folder")

    (root / "folder").symlink_to(root / "a")
    swapping = threading.Thread(target=swap)
    swapping.start()
    read = refused = 0
    try:
        while read < 500 or refused < 500:
            try:
                assert first_bytes(root / "folder" / "name", (str(root),)) == b"inside"
                read += 1
            except PermissionError:
                refused += 1
    finally:
        ended.set()
        swapping.join()


def test_a_hard_link_is_where_it_is(root: Path) -> None:
    os.link(root.parent / "root-outside" / "outside", root / "hard")
    assert first_bytes(root / "hard", (str(root),)) == b"outside"


def test_no_descriptor_is_left_open(root: Path) -> None:
    os.mkfifo(root / "pipe")
    before = os.listdir("/proc/self/fd")
    first_bytes(root / "inside", (str(root),))
    names(root, (str(root),))
    for path in (root / "pipe", root, root.parent, "/proc/self/environ"):
        with pytest.raises(OSError):  # noqa: PT011 - whatever the reason
            first_bytes(path, (str(root),))
    assert os.listdir("/proc/self/fd") == before


def identity(path: Path) -> tuple[int, int]:
    state = path.stat()
    return state.st_dev, state.st_ino


def test_a_working_directory_is_the_one_that_was_looked_at(root: Path) -> None:
    (root / "work").mkdir()
    (root / "link").symlink_to("work")
    (root / "other").mkdir()
    work = identity(root / "work")
    before = os.listdir("/proc/self/fd")
    with same_directory(os.fsencode(root / "work"), work) as place:
        assert os.path.samestat(os.stat(place), (root / "work").stat())
    for path in (root / "other", root / "link", root / "gone", root / "inside"):
        with pytest.raises(OSError, match=ANOTHER) as caught, same_directory(os.fsencode(path), work):
            pass
        assert caught.value.errno == errno.ESTALE
    with same_directory(os.fsencode(root / "link"), None) as place:
        assert place == os.fsencode(root / "link")
    assert os.listdir("/proc/self/fd") == before


NOT_FOUND = 127


def test_search_path_keeps_no_link_that_a_statement_could_exchange(tmp_path: Path) -> None:
    root = Path(os.path.realpath(tmp_path))
    work, programs = root / "work", root / "venv"
    for folder in (work / "src", programs / "bin"):
        folder.mkdir(parents=True)
    (work / ".venv").symlink_to(programs)
    path = f"{work}/.venv/bin:{work}/src/../../venv/bin:{work}/src:bin:/usr/bin"
    assert search_path(path, (str(work),)) == f"{programs}/bin:{os.path.realpath('/usr/bin')}"


def test_search_path_finds_no_program_of_the_working_directory(tmp_path: Path) -> None:
    program = tmp_path / "planted"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    path = search_path(f"{tmp_path}:", (os.path.realpath(tmp_path),))
    done = subprocess.run(["/bin/sh", "-c", "planted"], cwd=tmp_path, env={"PATH": path}, capture_output=True)
    assert done.returncode == NOT_FOUND


def test_changed_directories_are_synced_once_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda pin: synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{pin}"))))
    opened = len(os.listdir("/proc/self/fd"))
    pins = [os.open(path, os.O_PATH) for path in (tmp_path / "a", tmp_path, tmp_path / "a")]
    with suppress(RuntimeError), SyncedTogether() as sync:
        for pin in pins:
            sync(pin)
            os.close(pin)
        assert synced == []
        raise RuntimeError
    assert synced == ["a", tmp_path.name]
    assert len(os.listdir("/proc/self/fd")) == opened
