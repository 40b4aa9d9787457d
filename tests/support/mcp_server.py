"""An MCP server for tests, as a program: plain standard library, so that it starts at once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]

TOOLS: list[Message] = [
    {
        "name": "add-one",
        "description": "Adds one.",
        "inputSchema": {
            "type": "object",
            "properties": {"n": {"type": "integer"}, "from": {"type": "string", "default": "x"}},
            "required": ["n"],
        },
        "annotations": {"readOnlyHint": True},
    },
    {"name": "fail", "description": "Fails.", "inputSchema": {"type": "object"}},
    {"name": "variables", "description": "What it was given.", "inputSchema": {"type": "object"}},
    {"name": "slow", "description": "Takes its time.", "inputSchema": {"type": "object"}},
    {"name": "leave", "description": "Ends the server.", "inputSchema": {"type": "object"}},
]
ASKING: Message = {
    "name": "book",
    "description": "Asks the user with the form that it is given, or by another method, and returns the answer.",
    "inputSchema": {
        "type": "object",
        "properties": {"form": {"type": "object"}, "times": {"type": "integer"}, "method": {"type": "string"}},
        "required": ["form"],
    },
}
"""Offered with the word `asking`."""


PROMPTS: list[Message] = [
    {
        "name": "greet all",
        "description": "Greets\nsomebody.",
        "arguments": [{"name": "who", "required": True}, {"name": "how"}],
    },
    {"name": "grow", "description": "Adds a prompt."},
    {"name": "slow", "description": "Never answers."},
]
"""Offered with the word `prompts`; `grow` adds `late`, and `slow` adds `asked`."""


def respond(message: Message, words: tuple[str, ...], send: Callable[[Message], None]) -> None:
    """Answers one message, if it is a request that has an answer."""
    method, params = message.get("method"), message.get("params") or {}
    if "id" in message and method is None:
        _take_answer(message, send)
    if "id" not in message or method is None:
        return
    result = _result(str(method), params, words, message, send)
    if result is not None:
        send({"jsonrpc": "2.0", "id": message["id"], **result})


def _result(
    method: str, params: Message, words: tuple[str, ...], message: Message, send: Callable[[Message], None]
) -> Message | None:
    match method:
        case "initialize":
            return {
                "result": {
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": {
                        "tools": {"listChanged": True},
                        "resources": {},
                        **({"prompts": {"listChanged": True}} if "prompts" in words else {}),
                    },
                    "serverInfo": {"name": "test", "version": "1"},
                    "instructions": "Ask for everything twice.",
                }
            }
        case "tools/list":
            many = [{"name": f"tool_{n}", "inputSchema": {"type": "object"}} for n in range(500)]
            asking = [ASKING] if "asking" in words else []
            return {"result": {"tools": [*TOOLS, *asking, *(many if "many" in words else [])]}}
        case "tools/call":
            return _called(params, message, send)
        case "resources/list":
            return {"result": {"resources": [{"uri": "test://note", "name": "note", "description": "A note."}]}}
        case "resources/read":
            if params["uri"] != "test://note":
                return {"error": {"code": -32602, "message": "no such resource"}}
            return {"result": {"contents": [{"uri": params["uri"], "mimeType": "text/plain", "text": "one\ntwo\n"}]}}
        case "prompts/list" if "unlisted" not in words:
            return {"result": {"prompts": PROMPTS}}
        case "prompts/get":
            return _prompt(params, send)
        case _:
            return {"error": {"code": -32601, "message": f"no method {method}"}}


def _prompt(params: Message, send: Callable[[Message], None]) -> Message | None:
    arguments = params.get("arguments") or {}
    match params["name"]:
        case "greet all":
            text = {"type": "text", "text": f"Greet {arguments['who']} {arguments.get('how', 'politely')}."}
            note = {"uri": "file:///etc/note.txt", "mimeType": "text/plain", "text": "not the file\n"}
            return {
                "result": {
                    "messages": [
                        {"role": "user", "content": text},
                        {"role": "user", "content": {"type": "resource", "resource": note}},
                    ]
                }
            }
        case "grow":
            PROMPTS.append({"name": "late"})
            send({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"})
            return {"result": {"messages": [{"role": "user", "content": {"type": "text", "text": "Grown."}}]}}
        case "slow":
            PROMPTS.append({"name": "asked"})
            send({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"})
            return None
        case _:
            return {"error": {"code": -32602, "message": "no such prompt"}}


_asked: dict[str, Message] = {}
"""The calls of `book` that wait for answers, by the ids of the questions."""


def _take_answer(answer: Message, send: Callable[[Message], None]) -> None:
    call = _asked.pop(answer["id"])
    call["answers"].append(answer.get("result", answer.get("error")))
    if len(call["answers"]) == call["times"]:
        text = json.dumps(call["answers"])
        send({"jsonrpc": "2.0", "id": call["id"], "result": {"content": [{"type": "text", "text": text}]}})


def _called(params: Message, message: Message, send: Callable[[Message], None]) -> Message | None:
    arguments = params.get("arguments") or {}
    match params["name"]:
        case "add-one":
            made = arguments["n"] + 1
            return {"result": {"content": [{"type": "text", "text": str(made)}], "structuredContent": {"made": made}}}
        case "fail":
            return {"result": {"isError": True, "content": [{"type": "text", "text": "no luck"}]}}
        case "variables":
            return {"result": {"content": [{"type": "text", "text": json.dumps(dict(os.environ))}]}}
        case "slow":
            token = (params.get("_meta") or {}).get("progressToken")
            told = {"progressToken": token, "progress": 1, "total": 2, "message": "half"}
            send({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})
            return None  # and no answer ever
        case "book":
            call = {"id": message["id"], "times": arguments.get("times", 1), "answers": []}
            for number in range(call["times"]):
                _asked[f"ask-{message['id']}-{number}"] = call
                form = {"method": arguments.get("method", "elicitation/create"), "params": arguments["form"]}
                send({"jsonrpc": "2.0", "id": f"ask-{message['id']}-{number}", **form})
            return None
        case "leave":
            os._exit(3)
        case _:
            return {"error": {"code": -32602, "message": f"no tool {message}"}}


def begin(words: tuple[str, ...]) -> None:
    """What it does before it serves."""
    if "dead" in words:
        sys.exit("this server has no time")
    if "noisy" in words:
        sys.stdout.buffer.write(b"Welcome!\n\n[]\n{}\n7\n\xff\xfe\n" + b"x" * 200_000 + b"\n")
        sys.stdout.flush()
    while "endless" in words:
        sys.stdout.write("x" * 65_536)
    if "stubborn" in words:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def main(words: tuple[str, ...]) -> None:
    """Serves stdio until the end of the input."""
    begin(words)
    path = os.environ.get("MCP_TEST_RECORD")
    with open(path, "a", encoding="utf-8") if path else contextlib.nullcontext() as record:
        if record is not None:
            print(json.dumps({"started": os.getpid()}), file=record, flush=True)
        for line in sys.stdin:
            message = json.loads(line)
            if record is not None:
                print(json.dumps(message), file=record, flush=True)
            respond(message, words, lambda answer: print(json.dumps(answer), flush=True))
            if "flood" in words and message.get("method") == "notifications/initialized":
                while True:
                    print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}))
    while "stubborn" in words:
        time.sleep(60)


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
