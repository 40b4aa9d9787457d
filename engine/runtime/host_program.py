"""A program that the host starts itself, for the environment that lives in its own process.

It has a session of its own and hence no terminal, and ends with its group and with what can still be found below it.
What left both goes on, and no limit but that of its time is applied. Must not know what the program prints. Started by
`in_process`, conducted by `command_run`.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess

from ..core.programs import CommandOutcome, CommandRequest
from .command_run import RunningProgram
from .environment import EnvironmentSpec
from .variables import program_variables
from .worker.processes.ending import end_tree


class HostProgram(RunningProgram):
    """One child of the host's."""

    def __init__(self, child: subprocess.Popen[bytes], stdout: int, stderr: int) -> None:
        super().__init__(stdout, stderr)
        self._child = child
        self._end = os.pidfd_open(child.pid)
        self.epoll.register(self._end, select.EPOLLIN)

    @classmethod
    def start(cls, spec: EnvironmentSpec, request: CommandRequest) -> HostProgram:
        """Starts it. Raises OSError by the name of the reason."""
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            (stdout, out), (stderr, err) = os.pipe(), os.pipe()
            for stack, descriptors in ((ours, (stdout, stderr)), (theirs, (out, err))):
                for descriptor in descriptors:
                    stack.callback(os.close, descriptor)
            stdin = theirs.enter_context(open(os.memfd_create("stdin"), "wb", buffering=0))
            stdin.write(request.stdin)
            stdin.seek(0)
            child = subprocess.Popen(  # noqa: S603 -- whoever asks has been allowed to run it
                request.argv,
                cwd=request.cwd,
                env=program_variables(spec, request),
                stdin=stdin,
                stdout=out,
                stderr=out if request.merged else err,
                start_new_session=True,
            )
            program = cls(child, stdout, stderr)
            ours.pop_all()
            return program

    def serve(self, descriptor: int, events: int) -> None:
        # Ahead of the reaping: until then its number, which is that of its group, is not given again.
        self.kill()
        code = self._child.wait()
        self.ended = CommandOutcome(code=code) if code >= 0 else CommandOutcome(signal=-code)

    def interrupt(self) -> None:
        self._signal_group(signal.SIGTERM)

    def kill(self) -> None:
        if self.ended is None:
            self._signal_group(signal.SIGKILL)
            end_tree(self._child.pid)

    def watch_memory(self) -> None:
        """The host's own memory is not bounded either."""

    def give_up(self) -> CommandOutcome:
        return CommandOutcome(reason="the program was killed, and has not ended since")

    def close(self) -> None:
        self.kill()
        super().close()
        os.close(self._end)

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self._child.pid, number)
