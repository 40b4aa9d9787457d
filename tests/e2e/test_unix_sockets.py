"""Servers on Unix sockets act outside the sandbox, so statements of a model reach none of them, in any mode."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from engine.runtime.sandbox import landlock, mounts
from tests.support.agents import Agent
from tests.support.scripts import runs, scripted

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(mounts.missing()) and landlock.version() < landlock.SINCE["sockets"],
        reason="no layer of this system keeps statements from sockets",
    ),
]
PROGRAM = """
import socket, subprocess, sys
source = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
outcomes = [subprocess.run([sys.executable, "-c", source, {path!r}], capture_output=True).returncode]
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
    outcomes.append(socket.socket(socket.AF_UNIX, kind).connect_ex({path!r}))
assert all(outcomes), outcomes
"""
COMMAND = """
import shlex
outcomes.append(bash(shlex.join([sys.executable, "-c", source, {path!r}])).code)
assert all(outcomes), outcomes
"""


@contextmanager
def servers() -> Generator[tuple[Path, ExitStack]]:
    # Not pytest's directory, whose path may be too long for a Unix socket.
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        yield Path(os.path.realpath(made)), stack


def serve(path: Path, stack: ExitStack) -> socket.socket:
    """A server that gives its socket its name as OpenSSH does: the kernel lists another one, which is gone."""
    server = stack.enter_context(socket.socket(socket.AF_UNIX))
    first = path.with_suffix(".Ab3xYz0123456789")
    server.bind(str(first))
    server.listen()
    path.hardlink_to(first)
    first.unlink()
    server.setblocking(False)
    return server


@pytest.mark.parametrize("mode", ["ask", "auto"])
def test_model_statements_connect_to_no_server_outside(tmp_path: Path, mode: str) -> None:
    with servers() as (place, stack):
        early, late = place / "early", place / "late"
        listening = [serve(early, stack)]
        source = PROGRAM + COMMAND if mode == "auto" else PROGRAM  # in mode ask, a command asks
        statements = [source.format(path=str(each)) for each in (early, late)]
        replies = [reply for each in statements for reply in ({"statement": each}, {"text": "Done."})]
        model = scripted(tmp_path, *replies)
        with Agent(tmp_path / "state", "--model", model, permission="reject_once") as agent:
            agent.initialize()
            session = agent.open(tmp_path)
            agent.call("session/set_mode", {"sessionId": session, "modeId": mode})
            for _ in statements:
                assert agent.prompt(session, "Go.", seconds=60) == "end_turn"
                if len(listening) == 1:
                    listening.append(serve(late, stack))
            assert len(list(filter(runs, agent.received))) >= len(statements)
            assert not any("AssertionError" in str(message) for message in agent.received)
        for server in listening:
            with pytest.raises(BlockingIOError):
                server.accept()
