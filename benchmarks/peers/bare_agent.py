"""The floor: an ACP agent that is nothing but an asyncio loop over lines of JSON. Run as a script."""

import asyncio
import json
import sys


async def main() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)

    def send(message: dict) -> None:
        writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    while line := await reader.readline():
        message = json.loads(line)
        method = message.get("method")
        if method == "initialize":
            send({"id": message["id"], "result": {"protocolVersion": 1, "agentCapabilities": {}}})
        elif method == "session/new":
            send({"id": message["id"], "result": {"sessionId": "bare"}})
        elif method == "session/prompt":
            text = message["params"]["prompt"][0]["text"]
            for _ in range(int(text) if text.isdigit() else 1):
                update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}
                send({"method": "session/update", "params": {"sessionId": "bare", "update": update}})
                await writer.drain()
            send({"id": message["id"], "result": {"stopReason": "end_turn"}})
        await writer.drain()


asyncio.run(main())
