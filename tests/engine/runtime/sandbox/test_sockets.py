"""Which Unix sockets are kept from statements, by what the kernel lists."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from engine.core.domain import Domain
from engine.runtime.sandbox import sockets
from engine.runtime.system import kernel

pytestmark = pytest.mark.skipif(not kernel.AVAILABLE, reason="only Linux has this layer")


@pytest.fixture
def place() -> Generator[Path]:
    # Not pytest's, whose directories of parallel runs are too long for the path of a Unix socket.
    with tempfile.TemporaryDirectory() as found:
        yield Path(os.path.realpath(found))


@contextmanager
def listening(path: Path) -> Generator[str]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        yield str(path)


def kept_from(domain: Domain) -> set[str]:
    return set(sockets.outside(sockets.bound(domain), domain))


def test_sockets_outside_are_found_and_those_in_writable_directories_left_out(place: Path) -> None:
    names = ("scratch", "project", "outside")
    for name in names:
        (place / name).mkdir()
    scratch, project, outside = (place / name for name in names)
    with listening(scratch / "s") as own, listening(project / "s") as built, listening(outside / "s s") as other:
        assert {own, built, other} & kept_from(Domain(scratch=str(scratch))) == {built, other}
        assert {own, built, other} & kept_from(Domain(scratch=str(scratch), writable=(str(project),))) == {other}
    assert other not in kept_from(Domain(scratch=str(scratch)))


@pytest.mark.parametrize("first", ["s", "s.first"])
def test_a_socket_that_a_server_makes_again_is_a_new_one(place: Path, first: str) -> None:
    domain = Domain(scratch=str(place / "scratch"))
    with listening(place / first):
        (place / first).rename(place / "s")
        before = sockets.bound(domain)
        changed_at = (place / "s").stat().st_ctime_ns
    (place / "s").unlink()
    with listening(place / first):
        (place / first).rename(place / "s")
        while (place / "s").stat().st_ctime_ns == changed_at:  # the clock of the file system is coarse
            (place / "s").touch()
        assert str(place / "s") in sockets.outside(sockets.bound(domain) - before, domain)


@pytest.mark.parametrize("kind", ["renamed", "linked", "linked and kept"])
def test_a_socket_with_another_name_is_found(place: Path, kind: str) -> None:
    """OpenSSH links the socket of a master connection to its name, and removes the name that the kernel lists."""
    domain = Domain(scratch=str(place / "scratch"))
    with listening(place / "first") as path:
        (place / "file").write_text("")
        os.mkfifo(place / "pipe")
        before = sockets.bound(domain)
        if kind == "renamed":
            (place / "first").rename(place / "other")
        else:
            (place / "other").hardlink_to(place / "first")
        if kind == "linked":
            (place / "first").unlink()
        names = [path, str(place / "other")] if kind == "linked and kept" else [str(place / "other")]
        found = sockets.outside(sockets.bound(domain) - before, domain)
    assert sorted(each for each in found if each.startswith(str(place))) == names


def test_directories_that_programs_could_fill_are_searched_only_in_part(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "project").mkdir()
    monkeypatch.setattr(sockets, "MOST_NAMES", 0)
    with listening(place / "cm.Ab3xYz0123456789"), listening(place / "first"), listening(place / "project/s"):
        (place / "cm.Ab3xYz0123456789").rename(place / "cm")
        (place / "first").rename(place / "other")
        (place / "project/s").rename(place / "project/t")
        found = kept_from(Domain(scratch=str(place / "scratch")))
        monkeypatch.undo()
        searched: list[str] = []
        listed = os.scandir

        def search(path: str) -> Any:
            searched.append(path)
            return listed(path)

        monkeypatch.setattr(os, "scandir", search)
        all_of_them = kept_from(Domain(scratch=str(place / "scratch"), writable=(str(place / "project"),)))
    assert {each for each in found if each.startswith(str(place))} == {str(place / "cm")}
    assert {each for each in all_of_them if each.startswith(str(place))} == {str(place / "cm"), str(place / "other")}
    assert str(place) in searched
    assert str(place / "project") not in searched


def test_a_socket_behind_a_link_is_found_where_it_is(place: Path) -> None:
    (place / "run").mkdir()
    (place / "link").symlink_to("run")
    with listening(place / "link" / "s") as path:
        found = kept_from(Domain(scratch=str(place / "scratch")))
    assert str(place / "run" / "s") in found
    assert path not in found


def test_the_agent_of_the_environment_is_found_if_the_kernel_does_not_list_its_path(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    domain = Domain(scratch=str(place / "scratch"))
    with listening(Path("agent")):
        path = str(place / "agent")
        assert path not in kept_from(domain)
        monkeypatch.setenv("SSH_AUTH_SOCK", path)
        assert path in kept_from(domain)


@pytest.mark.parametrize("network", [False, True])
def test_servers_of_host_names_are_left_out_with_the_network_on(
    place: Path, monkeypatch: pytest.MonkeyPatch, network: bool
) -> None:
    with listening(place / "resolver") as path:
        monkeypatch.setattr(sockets, "RESOLVERS", frozenset((path,)))
        assert (path in kept_from(Domain(scratch=str(place / "scratch"), network=network))) == (not network)


def test_a_usual_socket_of_another_network_is_found_whenever_it_is_made(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel does not list it: another file stands in."""
    domain, path = Domain(scratch=str(place / "scratch")), place / "docker.sock"
    monkeypatch.setattr(sockets, "_USUAL", (str(path),))
    seen = {sockets.bound(domain)}
    for _ in range(2):
        with listening(place / "made"):
            (place / "made").rename(path)
            monkeypatch.setattr(sockets, "_TABLE", os.devnull)
            found = sockets.bound(domain)
            assert [str(path)] == list(sockets.outside(found, domain))
            assert found not in seen
            seen.add(found)
        path.unlink()
