"""The standard streams of a real process carry the protocol and nothing else."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import socket
import subprocess
import sys
import threading
import tty
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from acp_adapter.jsonrpc.stdio import StdioTransport

AGENT = [sys.executable, "-m", "tests.support.rpc_agent"]
ROOT = Path(__file__).parents[3]
SECONDS = 20


def line(method: str, params: Any = None, request_id: Any = 1) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}).encode() + b"\n"


def read(fd: int) -> bytes:
    """Wait for bytes and return those available."""
    assert select.select([fd], [], [], SECONDS)[0]
    return os.read(fd, 65_536)


def echoed(text: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": {"_meta": {"echo": text}}}


ECHO = line("echo", {"sessionId": "s"})


@pytest.mark.slow
def test_piped_request_is_answered_before_exit() -> None:
    done = subprocess.run(AGENT, input=ECHO, capture_output=True, timeout=SECONDS, cwd=ROOT, check=True)
    assert json.loads(done.stdout) == echoed("s")
    assert done.stderr == b""


def test_prints_and_reads_do_not_touch_the_protocol() -> None:
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    with subprocess.Popen(
        AGENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, env=buffered
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        watchdog = threading.Timer(SECONDS, process.kill)
        watchdog.start()
        # its input stays open and has more data, so any other reader hangs or steals it
        process.stdin.write(line("noisy") + ECHO)
        process.stdin.flush()
        messages = [json.loads(process.stdout.readline()) for _ in range(2)]
        # printed text must be out by now, because a killed process flushes nothing
        process.kill()
        rest, errors = process.communicate(timeout=SECONDS)
        watchdog.cancel()
    assert rest == b""
    assert echoed("s") in messages
    assert {"jsonrpc": "2.0", "id": 1, "result": {"_meta": {"stdin": "", "input": ""}}} in messages
    for text in (b"printed", b"written", b"raw", b"child\n", b"child read ''"):
        assert text in errors


@pytest.mark.slow
def test_regular_files_work_on_either_side(tmp_path: Path) -> None:
    source, sink = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(line("flood") + line("echo", {"sessionId": "x" * 300_000}))
    with source.open("rb") as stdin, sink.open("wb") as stdout:
        subprocess.run(AGENT, stdin=stdin, stdout=stdout, timeout=SECONDS, cwd=ROOT, check=True)
    messages = [json.loads(text) for text in sink.read_bytes().splitlines()]
    assert len(messages) == 2002
    assert [m["params"]["i"] for m in messages if "method" in m] == list(range(2000))
    assert echoed("x" * 300_000) in messages


@pytest.mark.slow
@pytest.mark.parametrize("redirection", ["</dev/null", "<&- >&- 2>&-", "</dev/null >&-"])
def test_closed_or_null_streams_end_the_process_cleanly(redirection: str) -> None:
    command = f'exec "$0" -m tests.support.rpc_agent {redirection}'
    shell = ["sh", "-c", command, sys.executable]
    done = subprocess.run(shell, timeout=SECONDS, cwd=ROOT, capture_output=True, check=True)
    assert done.stdout == b""
    assert done.stderr == b""


def test_children_get_streams_that_the_agent_lacked() -> None:
    shell = ["sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable]
    report = "import os; os.write({}, b'child ok' if [os.fstat(n) for n in (0, 1, 2)] else b'')"
    script = f"""
import os, sys
from acp_adapter.jsonrpc.stdio import divert
divert()
r, w = os.pipe()
os.set_inheritable(w, True)
os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-S", "-c", {report!r}.format(w)])
os.close(w)
assert os.read(r, 20) == b"child ok"
"""
    assert subprocess.run([*shell, script], timeout=SECONDS, cwd=ROOT, check=True).returncode == 0


@pytest.mark.slow
def test_reader_that_leaves_early_ends_the_process_quietly() -> None:
    process = subprocess.Popen(AGENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(line("flood") * 20)
        process.stdin.flush()
        assert process.stdout.readline()
        process.stdout.close()
        # its input stays open: the broken pipe alone must end it
        assert process.wait(SECONDS) == 0
        assert process.stderr.read() == b""


@pytest.mark.slow
def test_a_socket_pair_works_as_both_streams() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, subprocess.Popen(AGENT, stdin=theirs, stdout=theirs, cwd=ROOT) as process:
        theirs.close()
        ours.settimeout(SECONDS)
        ours.sendall(line("echo", {"sessionId": "x" * 2_000_000}))
        with ours.makefile("rb") as stream:
            assert json.loads(stream.readline()) == echoed("x" * 2_000_000)
            ours.shutdown(socket.SHUT_WR)
            assert stream.readline() == b""
        assert process.wait(SECONDS) == 0


@pytest.mark.slow
def test_a_terminal_works_as_both_streams() -> None:
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    with subprocess.Popen(AGENT, stdin=theirs, stdout=theirs, cwd=ROOT) as process:
        os.write(ours, line("echo", {"sessionId": "x" * 3000}))
        received = b""
        while not received.endswith(b"\n"):
            received += read(ours)
        assert json.loads(received) == echoed("x" * 3000)
        assert not fcntl.fcntl(theirs, fcntl.F_GETFL) & os.O_NONBLOCK
        os.close(theirs)
        os.close(ours)
        assert process.wait(SECONDS) == 0


def test_shared_flags_stay_unchanged() -> None:
    source_r, source_w = os.pipe()
    sink_r, sink_w = os.pipe()
    with subprocess.Popen(AGENT, stdin=source_r, stdout=sink_w, cwd=ROOT) as process:
        os.write(source_w, ECHO)
        assert read(sink_r)
        assert all(not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK for fd in (source_r, sink_w))
        os.close(source_w)
        assert process.wait(SECONDS) == 0
    for fd in (source_r, sink_r, sink_w):
        os.close(fd)


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["pipe", "socket"])
async def test_slow_reader_does_not_block_the_event_loop(kind: str) -> None:
    if kind == "pipe":
        sink_r, sink_w = os.pipe()
    else:
        ours, theirs = socket.socketpair()
        sink_r, sink_w = ours.detach(), theirs.detach()
    transport = StdioTransport(os.open(os.devnull, os.O_RDONLY), sink_w)
    data = os.urandom(3_000_000)
    received = bytearray()
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(transport.send, data)
            # the loop continues although nothing reads yet
            for _ in range(100):
                await anyio.lowlevel.checkpoint()
            while len(received) < len(data):
                received += await anyio.to_thread.run_sync(os.read, sink_r, 10_000)
    assert received == data
    transport.close()
    os.close(sink_r)


@pytest.mark.anyio
async def test_receive_can_be_cancelled_and_repeated() -> None:
    source_r, source_w = os.pipe()
    transport = StdioTransport(source_r, os.open(os.devnull, os.O_WRONLY))
    with anyio.move_on_after(0.02) as waited:
        await transport.receive()
    assert waited.cancelled_caught
    os.write(source_w, b"x")
    with anyio.fail_after(SECONDS):
        assert await transport.receive() == b"x"
        os.close(source_w)
        assert await transport.receive() == b""
    transport.close()
