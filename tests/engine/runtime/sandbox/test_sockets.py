"""Which Unix sockets are kept from statements, by what the kernel lists."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

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
    return set(sockets.outside(sockets.bound(), domain))


def test_sockets_outside_are_found_and_those_in_writable_directories_left_out(place: Path) -> None:
    names = ("scratch", "project", "outside")
    for name in names:
        (place / name).mkdir()
    scratch, project, outside = (place / name for name in names)
    with listening(scratch / "s") as own, listening(project / "s") as built, listening(outside / "s s") as other:
        assert {own, built, other} & kept_from(Domain(scratch=str(scratch))) == {built, other}
        assert {own, built, other} & kept_from(Domain(scratch=str(scratch), writable=(str(project),))) == {other}
    assert other not in kept_from(Domain(scratch=str(scratch)))


def test_a_socket_that_a_server_makes_again_is_a_new_one(place: Path) -> None:
    with listening(place / "s"):
        before = sockets.bound()
    (place / "s").unlink()
    with listening(place / "s") as path:
        assert path in sockets.outside(sockets.bound() - before, Domain(scratch=str(place / "scratch")))


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
