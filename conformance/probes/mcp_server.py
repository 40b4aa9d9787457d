"""An MCP server for agents under test. It records its start and the requests it receives. It offers no tools.

Run as a program under the agent, never imported. Standard library only.
"""

import json
import os
import sys
from typing import Any


def main() -> None:
    """Answer initialize and tools/list on stdio until the input ends."""
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
