"""How a client spells paths, scratch directories that go whole, and the project's Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.core.ids import SessionId
from engine.session.directories import Scratch, Spellings, find_project_environment, sweep


def test_a_file_is_spelled_below_the_directory_that_was_given(tmp_path: Path) -> None:
    real, link, other = tmp_path / "real", tmp_path / "link", tmp_path / "other"
    (real / "inner").mkdir(parents=True)
    other.mkdir()
    link.symlink_to(real)
    inner = tmp_path / "inner"
    inner.symlink_to(real / "inner")
    spellings = Spellings((str(link), str(other), str(inner)))
    assert spellings.of(f"{real}/a.py") == f"{link}/a.py"
    assert spellings.of(f"{link}/a.py") == f"{link}/a.py"
    assert spellings.of(f"{other}/b/a.py") == f"{other}/b/a.py"
    assert spellings.of(f"{real}/inner/a.py") == f"{inner}/a.py"
    assert spellings.of(f"{real}-else/a.py") == f"{real}-else/a.py"
    assert spellings.of("") == ""


def made(state: Path, name: str) -> Path:
    scratch = Scratch(state, SessionId(name))
    scratch.make()
    return Path(scratch.path)


def test_empty_scratch_goes_on_close_and_others_stay(tmp_path: Path) -> None:
    empty, full = made(tmp_path, "empty"), made(tmp_path, "full")
    (full / "x").write_text("x")
    for name in ("empty", "full", "never-made"):
        Scratch(tmp_path, SessionId(name)).close()
    assert (empty.exists(), full.exists()) == (False, True)


def test_removal_follows_no_links_and_enters_closed_directories(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(0o500)
    (tmp_path / "file").write_text("x")
    scratch = made(tmp_path / "state", "s")
    (scratch / "a" / "b").mkdir(parents=True)
    (scratch / "a" / "b" / "deep").write_text("x")
    (scratch / "to").symlink_to(outside)
    (scratch / "a" / "to").symlink_to(tmp_path / "file")
    os.link(tmp_path / "file", scratch / "hard")
    os.chmod(scratch / "a" / "b", 0)
    os.chmod(scratch / "a", 0)
    os.chmod(scratch, 0)
    Scratch(tmp_path / "state", SessionId("s")).remove()
    assert not scratch.exists()
    assert outside.stat().st_mode & 0o777 == 0o500
    assert (tmp_path / "file").read_text() == "x"


def test_those_of_sessions_that_are_no_more_are_swept(tmp_path: Path) -> None:
    kept, gone = made(tmp_path, "kept"), tmp_path / "scratch/gone"
    gone.mkdir()
    sweep(tmp_path, lambda: {SessionId("kept")})
    assert (kept.exists(), gone.exists()) == (True, False)
    sweep(tmp_path / "nowhere", set)


def test_sockets_of_multiprocessing_have_room_in_it() -> None:
    state = Path("/home/somebody-of-this/.local/state/rewindow")
    one, other = (Scratch(state, SessionId(f"ses_{number:024x}")) for number in (1, 2))
    assert len(f"{one.path}/pymp-abcdefgh/listener-abcdefgh") <= 107
    assert one.path != other.path


def test_scratch_in_use_stays_until_its_user_is_done(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path, SessionId("in-memory"))
    for _ in range(3):  # with each worker
        scratch.make()
    (Path(scratch.path) / "x").write_text("x")
    sweep(tmp_path, set)
    assert os.listdir(scratch.path) == ["x"]
    scratch.close()
    sweep(tmp_path, set)
    assert not os.path.exists(scratch.path)


def test_one_goes_however_deep_its_directories_are(tmp_path: Path) -> None:
    """Deeper than Python can call itself, and than a path can be long; at the bottom what nobody may read."""
    scratch = Scratch(tmp_path, SessionId("deep"))
    scratch.make()
    (Path(scratch.path) / ".removed-0").mkdir()
    place = os.open(scratch.path, os.O_RDONLY)
    for _ in range(1_100):
        os.mkdir("down", dir_fd=place)
        inner = os.open("down", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(os.open("file", os.O_CREAT, dir_fd=place))
    os.fchmod(place, 0)
    os.close(place)
    try:
        scratch.remove()
        assert os.listdir(tmp_path / "scratch") == []
    finally:
        # Whatever becomes of the test: pytest cannot remove it either.
        subprocess.run(["rm", "-rf", scratch.path], check=True)


def test_one_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    scratch = made(tmp_path, "s")
    scratch.chmod(0o755)
    assert made(tmp_path, "s").stat().st_mode & 0o777 == 0o700


OURS = f"{sys.version_info.major}.{sys.version_info.minor}"


def make(root: Path, version: str = f"{OURS}.1", *packages: str) -> str:
    site = root / "lib" / f"python{'.'.join(version.split('.')[:2])}" / "site-packages"
    site.mkdir(parents=True)
    for package in packages:
        (site / f"{package}.dist-info").mkdir()
    (root / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = {version}\n")
    return str(site)


def test_the_nearest_environment_up_to_the_workspaces_root_is_found(tmp_path: Path) -> None:
    site = make(tmp_path / ".venv", f"{OURS}.9", "b-2.0", "a-1.0")
    (tmp_path / "src" / "deep").mkdir(parents=True)
    found = find_project_environment(str(tmp_path / "src" / "deep"), {}, None)
    assert found.import_paths == (site,)
    assert found.packages == ("a-1.0", "b-2.0")
    assert found.note == ""
    assert found.python.startswith(OURS)
    (tmp_path / "src" / ".git").mkdir()
    assert find_project_environment(str(tmp_path / "src" / "deep"), {}, None).import_paths == ()


def test_a_pipe_is_no_configuration_of_an_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / ".venv")
    (tmp_path / ".venv/pyvenv.cfg").unlink()
    os.mkfifo(tmp_path / ".venv/pyvenv.cfg")
    monkeypatch.setattr(Path, "is_file", lambda _: True)  # as a check before a swap would say
    assert "is not a readable virtual environment" in find_project_environment(str(tmp_path), {}, None).note


def test_chosen_environment_wins_over_activated_and_own(tmp_path: Path) -> None:
    project = tmp_path / "project"
    activated, own, chosen = (make(path) for path in (tmp_path / "a", project / ".venv", tmp_path / "c"))
    variables = {"VIRTUAL_ENV": str(tmp_path / "a")}
    assert find_project_environment(str(tmp_path), variables, None).import_paths == (activated,)
    assert find_project_environment(str(project), variables, None).import_paths == (activated,)
    assert find_project_environment(str(project), {"VIRTUAL_ENV": sys.prefix}, None).import_paths == (own,)
    for choice in (str(tmp_path / "c"), str(tmp_path / "c" / "bin" / "python"), "../c"):
        assert find_project_environment(str(project), variables, choice).import_paths == (chosen,)


@pytest.mark.parametrize("version", ["2.7.18", "3.99.0"])
def test_other_minor_version_is_unused_and_reported(tmp_path: Path, version: str) -> None:
    make(tmp_path / ".venv", version)
    found = find_project_environment(str(tmp_path), {}, None)
    assert found.import_paths == ()
    assert version in found.note
    assert found.note.count(". ") == 0


def test_broken_or_missing_environment_is_a_note(tmp_path: Path) -> None:
    assert find_project_environment(str(tmp_path / "missing"), {}, None).note == ""
    assert "--python nope" in find_project_environment(str(tmp_path), {}, "nope").note
    assert find_project_environment(str(tmp_path), {"VIRTUAL_ENV": "/nowhere"}, None).note
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "pyvenv.cfg").write_bytes(b"\xff\xfe version")
    assert find_project_environment(str(tmp_path), {}, None).note
    (tmp_path / ".venv" / "pyvenv.cfg").write_text(f"version_info = {OURS}.0.final.0\n")
    assert "cannot be read" in find_project_environment(str(tmp_path), {}, None).note


def test_download_is_a_new_file_whatever_statements_left_there(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    scratch = Scratch(tmp_path / "state", SessionId("s"))
    first = Path(scratch.keep("a.txt", b"1"))
    (first.parent / "a-2.txt").symlink_to(outside / "file")
    (first.parent / "a-3.txt").symlink_to(outside / "new")
    assert (first.name, first.read_bytes()) == ("a.txt", b"1")
    assert Path(scratch.keep("a.txt", b"2")).name == "a-4.txt"
    first.parent.rename(tmp_path / "moved")
    first.parent.symlink_to(outside)
    with pytest.raises(OSError, match="directory"):
        scratch.keep("a.txt", b"3")
    assert sorted(path.name for path in outside.iterdir()) == ["file"]
    assert (outside / "file").read_text() == "mine"
