"""Which accounts may run the hosts of users, and which host is let go."""

from __future__ import annotations

import os
import pwd
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.to_thread
import pytest
from anyio.abc import Process

from acp_adapter.control import ANSWER, ASK
from acp_adapter.listening import placement
from acp_adapter.listening.placement import MOST_ASKS, LocalHost, LocalProcesses, check_accounts
from acp_adapter.listening.users import User, UsersError

pytestmark = pytest.mark.anyio
OWN = pwd.getpwuid(os.geteuid()).pw_name
OTHER = "nobody" if OWN != "nobody" else "daemon"


def test_one_user_with_the_account_of_the_server(tmp_path: Path) -> None:
    check_accounts([User("ann", OWN)], tmp_path)


def test_two_users_with_one_account_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsersError, match="an account of its own"):
        check_accounts([User("ann", OWN), User("bob", OWN)], tmp_path)


def test_an_unknown_account_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsersError, match="no account"):
        check_accounts([User("ann", "no-such-account")], tmp_path)


def test_another_account_needs_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement.os, "geteuid", lambda: 4711)
    with pytest.raises(UsersError, match="only root"):
        check_accounts([User("ann", OTHER)], tmp_path)


def test_another_account_must_reach_the_state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement.os, "geteuid", lambda: 0)
    (tmp_path / "closed").mkdir(0o700)
    own = [User("ann", OTHER)] if pwd.getpwnam(OTHER).pw_uid else [User("ann", "daemon")]
    with pytest.raises(UsersError, match="closed to others"):
        check_accounts(own, tmp_path / "closed" / "state")


STARTED = """
import os, sys
def rewindow_acp():
    files = [os.environ[name] for name in ("PGSERVICEFILE", "AWS_CONFIG_FILE")]
    told = [os.geteuid(), os.environ["HOME"], sys.flags.no_user_site, *files]
    os.write(int(sys.argv[sys.argv.index("--connections") + 1]), repr(told).encode())
"""


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A directory that every account can reach, unlike `tmp_path`."""
    with tempfile.TemporaryDirectory(prefix="rewindow-placement-") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can serve users under their own accounts")
async def test_python_reads_no_file_of_a_user_before_it_has_given_up_root(
    open_to_all: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (open_to_all / "rewindow_startup.py").write_text(STARTED)
    account = pwd.getpwnam(OTHER)
    hosts = LocalProcesses({**os.environ, "PYTHONPATH": str(open_to_all)}, open_to_all / "state", None)
    environ: list[Mapping[str, str]] = []
    launch = anyio.open_process

    async def opened(command: Sequence[str], **given: Any) -> Process:
        environ.append(given["env"])
        return await launch(command, **given)

    monkeypatch.setattr(anyio, "open_process", opened)
    host = await hosts.start(User("ann", OTHER))
    control = host._control  # pyright: ignore[reportPrivateUsage] -- it is what the program answers on
    control.setblocking(True)
    control.settimeout(60)
    told = await anyio.to_thread.run_sync(control.recv, 1000)
    await host.end()
    assert told.decode() == repr([account.pw_uid, account.pw_dir, 1, os.devnull, os.devnull])
    assert environ[0].get("HOME") == os.environ.get("HOME")
    assert account.pw_dir not in environ[0].values()
    assert environ[0]["REWINDOW_SERVED"] == "1"


WRITES = r"""
import os, sys

def rewindow_acp():
    os.write(2, b"\x1b[2Jhello\n")
    given = [os.readlink(f"/proc/self/fd/{number}").partition(":")[0] for number in range(3)]
    os.write(int(sys.argv[sys.argv.index("--connections") + 1]), repr(given).encode())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can serve users under their own accounts")
async def test_a_host_of_another_account_has_no_descriptor_of_the_server(
    open_to_all: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (open_to_all / "rewindow_startup.py").write_text(WRITES)
    hosts = LocalProcesses({**os.environ, "PYTHONPATH": str(open_to_all)}, open_to_all / "state", None)
    host = await hosts.start(User("ann", OTHER))
    control = host._control  # pyright: ignore[reportPrivateUsage] -- it is what the program answers on
    control.setblocking(True)
    control.settimeout(60)
    told = await anyio.to_thread.run_sync(control.recv, 1000)
    assert told.decode() == repr([os.devnull, os.devnull, "pipe"])
    host.show_log()
    assert capsys.readouterr().err == "ann: \\x1b[2Jhello\n"
    await host.end()


@pytest.fixture
def control() -> Iterator[tuple[LocalHost, socket.socket]]:
    """A host, and its end of the control socket."""
    ours, theirs = socket.socketpair()
    ours.settimeout(5)
    theirs.settimeout(5)
    with ours, theirs:
        yield LocalHost(User("ann", OWN), cast("Process", None), ours), theirs


async def test_no_host_is_let_go_while_a_connection_is_on_its_way(control: tuple[LocalHost, socket.socket]) -> None:
    host, theirs = control
    assert not host.is_unused
    for is_unused, received, given, lets_go in (
        (False, 0, 0, False),
        (True, 0, 0, True),
        (True, 0, 1, False),  # its answer was sent before it received the connection
        (True, 1, 0, True),
        (False, 1, 0, False),
    ):
        theirs.send(ANSWER.pack(is_unused, received))
        for _ in range(given):
            one, other = socket.socketpair()
            with one:
                await host.give(other)
        host.ask()
        assert host.is_unused is lets_go
    theirs.send(ANSWER.pack(True, 1))
    host.ask()
    one, other = socket.socketpair()
    with one:
        await host.give(other)
    assert not host.is_unused


def test_a_host_that_answers_no_question_hangs(control: tuple[LocalHost, socket.socket]) -> None:
    host, theirs = control
    for _ in range(MOST_ASKS):
        host.ask()
    assert theirs.recv(100) == ASK * MOST_ASKS
    assert not host.hangs
    theirs.send(ANSWER.pack(False, 0))
    host.ask()
    for _ in range(MOST_ASKS):
        assert not host.hangs
        host.ask()
    assert host.hangs


async def test_a_host_that_is_stopped_keeps_no_thread_and_no_other_user_waiting() -> None:
    async with await anyio.open_process(["sleep", "60"]) as process:
        ours, theirs = socket.socketpair()
        host = LocalHost(User("ann", OWN), process, ours)
        before = threading.active_count()
        with theirs, ours, ExitStack() as opened:
            async with anyio.create_task_group() as tasks:
                for _ in range(1_000):  # the kernel takes some hundred
                    end, other = socket.socketpair()
                    opened.enter_context(other)
                    tasks.start_soon(host.give, end)
                await anyio.sleep(0.2)
                assert threading.active_count() == before
                tasks.cancel_scope.cancel()
        process.kill()
