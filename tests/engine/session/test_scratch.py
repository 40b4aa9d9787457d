"""Scratch directories are removed with all that statements may have left in them, and with nothing else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from engine.core.ids import SessionId
from engine.session.directories import Scratch, sweep


def made(state: Path, name: str) -> Path:
    scratch = Scratch(state, SessionId(name))
    scratch.make()
    return Path(scratch.path)


def test_an_empty_one_goes_when_the_session_is_closed_and_another_stays(tmp_path: Path) -> None:
    empty, full = made(tmp_path, "empty"), made(tmp_path, "full")
    (full / "x").write_text("x")
    for name in ("empty", "full", "never-made"):
        Scratch(tmp_path, SessionId(name)).close()
    assert (empty.exists(), full.exists()) == (False, True)


def test_links_out_of_it_are_not_followed_and_closed_directories_go(tmp_path: Path) -> None:
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


def test_one_in_use_stays_whatever_the_list_says_until_its_user_is_done(tmp_path: Path) -> None:
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
    for _ in range(2_500):
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
