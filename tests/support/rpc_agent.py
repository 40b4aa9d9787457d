"""A small agent over the real standard streams, run as a program by the tests of `jsonrpc.stdio`."""

from acp_adapter.jsonrpc.stdio import divert

STREAMS = divert()

import os  # noqa: E402  (the streams come first)
import subprocess  # noqa: E402
import sys  # noqa: E402

import anyio  # noqa: E402

from acp_adapter.jsonrpc.dispatch import Context  # noqa: E402
from acp_adapter.jsonrpc.peer import Peer  # noqa: E402
from acp_adapter.jsonrpc.stdio import StdioTransport  # noqa: E402
from acp_adapter.server import to_error  # noqa: E402
from acp_adapter.stored_sessions import SessionRequest  # noqa: E402
from acp_adapter.wire import Empty  # noqa: E402
from tests.support.wire_peer import ModelCodec, served  # noqa: E402


async def noisy(context: Context[None, None], params: Empty) -> Empty:
    """Prints in every way there is, and lets a child print and read."""
    print("printed")
    sys.stdout.write("written\n")
    os.write(1, b"raw")
    child = "import sys; print('child'); print('child read', repr(sys.stdin.read()))"
    await anyio.to_thread.run_sync(lambda: subprocess.run([sys.executable, "-c", child], check=True))
    return Empty(meta={"stdin": sys.stdin.read(), "input": os.read(0, 10).decode()})


async def echo(context: Context[None, None], params: SessionRequest) -> Empty:
    return Empty(meta={"echo": params.session_id})


async def flood(context: Context[None, None], params: Empty) -> None:
    for i in range(2000):
        await context.peer.notify("n", {"i": i, "text": "x" * 200})


async def main() -> None:
    rows = [
        served("noisy", Empty, None, noisy),
        served("echo", SessionRequest, None, echo),
        served("flood", Empty, None, flood),
    ]
    transport = StdioTransport(*STREAMS)
    methods = {row.method.name: row.method for row in rows}
    await Peer(transport, methods, None, codec=ModelCodec(rows), to_error=to_error).run()
    transport.close()


anyio.run(main)
