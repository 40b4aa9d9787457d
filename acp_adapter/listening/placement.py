"""Where a user's host runs. `LocalProcesses` starts a process for each user, under the user's own account.

The sandbox of statements does not restrict reading, so an account of its own is what keeps one user's files, sessions
and processes from another. Each connection is a socket pair. Its far end goes to the host over a control socket
(`acp_adapter.hosting`), so no other process can connect.

A host that nobody uses is let go: it ends, and starts again with the next connection. A host that does not answer for
ASK_SECONDS * MOST_ASKS is killed. Questions are counted instead of seconds, because after a sleep of the whole machine
both processes are late.

Must not know HTTP. Used by `connections` and `server`.
"""

from __future__ import annotations

import logging
import os
import pwd
import socket
import stat
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Protocol

import anyio
from anyio.abc import Process

from acp_adapter.control import ANSWER, ASK, BEAT, CONNECTION, IDLE_OPTION, OPTION
from acp_adapter.jsonrpc.sockets import SocketTransport
from acp_adapter.listening.users import SHARED, User, UsersError
from engine.core.text import visible

NO_HEAD: Final = (
    "the head of the Ray cluster does not answer. Agents that run go on, but no other one can be started. Ray ends its "
    "nodes and this server if the head stays away: then start them again after the head"
)
END_SECONDS: Final = 10.0
"""Time for a host to close its sessions."""
ASK_SECONDS: Final = 2.5
"""How often a host is asked how it is."""
MOST_ASKS: Final = 12
"""Questions in a row that a host may leave without an answer."""
_STATE_VARIABLE: Final = "REWINDOW_STATE_DIR"
_TENANT_VARIABLE: Final = "REWINDOW_TENANT"
_SERVED_VARIABLE: Final = "REWINDOW_SERVED"
_FILE_VARIABLES: Final = (
    "PGSERVICEFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "CLOUDSDK_CONFIG", "AZURE_CONFIG_DIR",
)  # fmt: skip
"""Of files that libraries look for in the home, and that decide where the server's passwords and keys are sent."""
_USERS_FOLDER: Final = "users"
_MOST_ANSWERS: Final = 1_000
_LOG_BYTES: Final = 1 << 16
"""As many as a pipe holds. So a host that writes more waits, and none fills the server's disk quickly."""
_OWN_VARIABLES: Final = ("XDG_", "TMPDIR", "SUDO_", "MAIL", "SSH_", "DBUS_")
"""Beginnings of variables that belong to the account which started the server."""

_log = logging.getLogger(__name__)


class Link(Protocol):
    """Carries the lines of one connection to a host and back."""

    async def receive(self) -> bytes: ...

    async def send(self, data: bytes) -> None: ...

    def close(self) -> None: ...


class Place(Protocol):
    """A user's host."""

    async def connect(self) -> Link:
        """Open a connection to the host. Raises PlacementError."""
        ...


class Placement(Protocol):
    """Starts and finds the hosts of users."""

    async def start(self, user: User) -> Place:
        """Return the user's host, which is started if it does not run. Raises PlacementError."""
        ...

    def find(self, user: str) -> Place | None:
        """Return the host of the user with that name, if it runs."""
        ...

    async def end(self, user: str) -> None:
        """End a host, with its sessions."""
        ...

    def list(self) -> Sequence[User]:
        """Return the users whose hosts run."""
        ...

    async def tend(self) -> None:
        """Look after the hosts, until cancelled."""
        ...

    async def leave(self) -> None:
        """Let go of all hosts, because the front end ends."""
        ...


class PlacementError(Exception):
    """Raised when a host cannot be started or reached; the message is for the administrator."""


def check_accounts(users: Collection[User], state_dir: Path) -> None:
    """Check that each user can have a host of its own account here. Raises UsersError."""
    owners: dict[int, User] = {}
    for user in sorted(users, key=lambda each: each.name):
        uid = _account(user).pw_uid
        if (other := owners.setdefault(uid, user)) is not user:
            raise UsersError(SHARED.format(other.name, user.name, user.account))
        if uid == os.geteuid():
            continue
        if os.geteuid() != 0:
            raise UsersError(
                f"only root can serve {user.name} under the account {user.account}; start the server as root, or keep "
                "one user with your own account"
            )
        closed = next((each for each in reversed(state_dir.absolute().parents) if not _is_open(each)), None)
        if closed is not None:
            raise UsersError(
                f"the account {user.account} cannot reach {state_dir}, because {closed} is closed to others; choose "
                "another --state-dir, such as /var/lib/rewindow"
            )


def _account(user: User) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(user.account)
    except KeyError:
        raise UsersError(f"there is no account {user.account} for {user.name}") from None


def _is_open(folder: Path) -> bool:
    """Whether everyone may pass through a directory, or could if it is made."""
    try:
        return bool(folder.stat().st_mode & stat.S_IXOTH)
    except FileNotFoundError:
        return True


class LocalHost:
    """A host as a process of this machine."""

    def __init__(self, user: User, process: Process, control: socket.socket, log: int | None = None) -> None:
        """`log` is the end of a pipe with what the host writes to its standard error."""
        self.user: Final = user
        self._process = process
        self._control = control
        control.setblocking(False)
        self._log = log
        if log is not None:
            os.set_blocking(log, False)
        self._giving: Final = anyio.Lock()
        self._given = 0
        """How many connections were sent."""
        self._asked = 0
        """How many questions the host has not answered."""
        self._is_unused = False

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    async def connect(self) -> SocketTransport:
        """Open a connection to the host. Raises PlacementError."""
        ours, theirs = socket.socketpair()
        try:
            await self.give(theirs)
        except BaseException:
            ours.close()
            raise
        return SocketTransport(ours)

    async def give(self, connected: socket.socket) -> None:
        """Let the host serve a connection, which is closed here. Raises PlacementError."""
        self._given += 1  # before anything waits, so that no host is let go while it gets a connection
        self._is_unused = False
        try:
            with connected:
                # The kernel takes few descriptors that nobody has received. A host may be stopped, and others may not
                # wait for that: so this occupies no thread.
                with anyio.fail_after(END_SECONDS):
                    async with self._giving:
                        await self._send(connected)
        except (OSError, TimeoutError) as error:
            raise PlacementError(f"the host of {self.user.name} does not answer: {error or 'too late'}") from None

    async def _send(self, connected: socket.socket) -> None:
        while True:
            try:
                socket.send_fds(self._control, [CONNECTION], [connected.fileno()])
            except BlockingIOError:
                await anyio.wait_writable(self._control)
            else:
                return

    def beat(self) -> None:
        """Tell the host that this process runs. It ends when it hears this no more, once it did."""
        self._tell(BEAT)

    def ask(self) -> None:
        """Read the host's answers, and ask again how it is."""
        with suppress(OSError):  # nothing to read
            while answers := self._control.recv(_MOST_ANSWERS * ANSWER.size):
                self._asked = 0
                is_unused, received = ANSWER.unpack(answers[-ANSWER.size :])
                self._is_unused = is_unused and received == self._given
        self._asked += 1
        self._tell(ASK)

    @property
    def is_unused(self) -> bool:
        """Whether nobody has used the host for a while, and no connection is on its way to it."""
        return self._is_unused

    @property
    def hangs(self) -> bool:
        return self._asked > MOST_ASKS

    def show_log(self) -> None:
        """Show what the host has written since the last call, or the first 64 KiB of it, on this standard error."""
        if self._log is None:
            return
        with suppress(BlockingIOError):  # nothing to read
            for line in os.read(self._log, _LOG_BYTES).decode(errors="replace").splitlines():
                sys.stderr.write(f"{self.user.name}: {visible(line)}\n")
            sys.stderr.flush()

    def kill(self) -> None:
        """Kill a process that would not end."""
        with suppress(ProcessLookupError):
            self._process.kill()

    def _tell(self, word: bytes) -> None:
        """Send without waiting."""
        with suppress(OSError):  # the host has ended, or does not read
            self._control.send(word)

    async def end(self) -> None:
        """End the process: closing the control socket lets it close its sessions."""
        self._control.close()
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(END_SECONDS):
                await self._process.wait()
            if self.is_running:
                self._process.kill()
            await self._process.aclose()
        self.show_log()
        if self._log is not None:
            os.close(self._log)
            self._log = None


class LocalProcesses:
    """A host for each user, as a process of this machine."""

    def __init__(self, environ: Mapping[str, str], state_dir: Path, idle_minutes: float | None) -> None:
        """`environ` is the one of hosts, with their settings; `idle_minutes` is their option."""
        self._environ = environ
        self._state_dir = state_dir
        self._idle_minutes = idle_minutes
        self._hosts: dict[str, LocalHost] = {}
        self._starting: Final = defaultdict[str, anyio.Lock](anyio.Lock)
        """By the name of the user."""

    async def start(self, user: User) -> LocalHost:
        """Return the user's host, which is started if it does not run. Raises PlacementError."""
        async with self._starting[user.name]:
            found = self._hosts.get(user.name)
            if found is not None and found.is_running and found.user == user:
                return found
            if found is not None:
                await found.end()
            self._hosts[user.name] = started = await self._start(user)
            return started

    async def _start(self, user: User) -> LocalHost:
        try:
            check_accounts([user], self._state_dir)
            account = _account(user)
            with ExitStack() as undo, ExitStack() as given:
                ours, theirs = socket.socketpair()
                undo.enter_context(ours)
                given.enter_context(theirs)
                log, errors = None, None
                if account.pw_uid != os.geteuid():
                    # The user may take each descriptor of the host from a process below it (pidfd_getfd). So the host
                    # has none of this process, which would be the terminal or the log of root.
                    log, errors = os.pipe()
                    undo.callback(os.close, log)
                    given.callback(os.close, errors)
                process = await self._launch(user, account, theirs, errors)
                undo.pop_all()
        except (OSError, UsersError) as error:
            raise PlacementError(f"the host of {user.name} cannot be started: {error}") from None
        return LocalHost(user, process, ours, log)

    async def _launch(
        self, user: User, account: pwd.struct_passwd, control: socket.socket, errors: int | None
    ) -> Process:
        is_own = account.pw_uid == os.geteuid()
        module = ["acp_adapter"] if is_own else ["acp_adapter.listening.account", account.pw_name]
        command = [sys.executable, "-P", *([] if is_own else ["-s"]), "-m", *module, OPTION, str(control.fileno())]
        command += [] if self._idle_minutes is None else [IDLE_OPTION, str(self._idle_minutes)]
        return await anyio.open_process(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=self._environ if is_own else self._environ_of(user, account),
            cwd=None if is_own else "/",
            pass_fds=[control.fileno()],
            start_new_session=True,
        )

    def _environ_of(self, user: User, account: pwd.struct_passwd) -> Mapping[str, str]:
        """Return the environment in which another account's host starts: its state directory and tenant are its own.

        It has nothing of the account yet: until `account` has given up root, no file of the user may be read.
        """
        users = self._state_dir / _USERS_FOLDER
        own = users / user.name
        for folder in (self._state_dir, users):
            folder.mkdir(0o711, parents=True, exist_ok=True)
            folder.chmod(0o711)
        own.mkdir(0o700, exist_ok=True)
        os.chown(own, account.pw_uid, account.pw_gid)
        environ = {name: value for name, value in self._environ.items() if not name.startswith(_OWN_VARIABLES)}
        files = {name: environ.get(name) or os.devnull for name in _FILE_VARIABLES}
        return {**environ, **files, _SERVED_VARIABLE: "1", _STATE_VARIABLE: str(own), _TENANT_VARIABLE: user.name}

    def find(self, user: str) -> LocalHost | None:
        """Return the host of the user with that name, if it runs."""
        found = self._hosts.get(user)
        return found if found is not None and found.is_running else None

    async def end(self, user: str) -> None:
        """End a host, with its sessions."""
        if (found := self._hosts.pop(user, None)) is not None:
            await found.end()

    async def tend(self) -> None:
        """Look after the hosts until cancelled: let go of unused ones, and kill those that hang."""
        async with anyio.create_task_group() as tasks:
            while True:
                await anyio.sleep(ASK_SECONDS)
                for name, host in [*self._hosts.items()]:
                    host.ask()
                    host.show_log()
                    if host.is_unused:
                        del self._hosts[name]  # the next connection starts another one
                        tasks.start_soon(host.end)
                    elif host.hangs and host.is_running:
                        _log.warning("the host of %s does not answer and is killed", name)
                        host.kill()

    async def leave(self) -> None:
        """End all hosts, which are processes of the front end."""
        async with anyio.create_task_group() as tasks:
            for user in self.list():
                tasks.start_soon(self.end, user.name)

    def list(self) -> Sequence[User]:
        """Return the users whose hosts run."""
        return [host.user for host in self._hosts.values() if host.is_running]
