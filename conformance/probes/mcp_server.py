"""An MCP server that agents under judgement are given: it records that it was started, and what it was asked.

Run as a program, never imported; plain standard library, because it runs under the agent. Offers no tools.
"""

import json
import os
import sys
from typing import Any


def main() -> None:
    """Answers initialize and tools/list on stdio until its input ends."""
    with open(os.environ["REWINDOW_CONFORMANCE_RECORD"], "a", encoding="utf-8") as record:
        print(json.dumps({"started": sys.argv[1:]}), file=record, flush=True)
        for line in sys.stdin:
            message = json.loads(line)
            print(json.dumps({"method": message.get("method")}), file=record, flush=True)
            if "id" in message:
                print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **_answer(message)}), flush=True)


def _answer(message: dict[str, Any]) -> dict[str, object]:
    match message.get("method"):
        case "initialize":
            version = message["params"]["protocolVersion"]
            server = {"name": "rewindow-conformance-probe", "version": "1"}
            return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}}
        case "tools/list":
            return {"result": {"tools": []}}
        case "ping":
            return {"result": {}}
        case _:
            return {"error": {"code": -32601, "message": "Method not found"}}


if __name__ == "__main__":
    main()
