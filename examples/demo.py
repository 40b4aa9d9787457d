"""Drives `rewindow-acp` as an editor would and prints what happens. Run it with `make demo`.

Plain ACP over pipes with nothing but the standard library, so that it also shows how little a client needs. It opens a
session on this source tree, runs statements, searches, changes a file, runs a command, has a statement act outside,
edits a file behind a running view, cancels a statement that never ends, resumes the session in a new process that
brings all names back, goes back to before a file was removed, puts another statement in the place of an earlier one,
and says where the session was saved.
"""

from __future__ import annotations

import difflib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
COLOURS = ("\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[0m")
BOLD, DIM, RED, GREEN, PLAIN = COLOURS if sys.stdout.isatty() else ("",) * 5

Message = dict[str, Any]

running: dict[str, list[Message]] = {}
"""The content of each call that has not ended: its output so far, or the change that it made."""


class Editor:
    """One agent process and the conversation with it."""

    def __init__(self) -> None:
        self.agent = subprocess.Popen([str(BIN / "rewindow-acp")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.requests = 0

    def call(self, method: str, params: Message) -> Message:
        """Sends a request, shows every update until its response, and returns the result."""
        self.begin(method, params)
        return self.finish()

    def begin(self, method: str, params: Message) -> None:
        self.requests += 1
        self._send({"id": self.requests, "method": method, "params": params})

    def notify(self, method: str, params: Message) -> None:
        self._send({"method": method, "params": params})

    def finish(self, until_running: bool = False) -> Message:
        """Shows updates until the response is there, or until a statement runs."""
        while True:
            message = self._receive()
            if "method" in message:
                update = message["params"]["update"]
                show(update)
                if until_running and update.get("status") == "in_progress":
                    return update
            elif "error" in message:
                raise SystemExit(f"the agent answered with an error: {message['error']['message']}")
            else:
                return message["result"]

    def prompt(self, session: str, text: str, *links: Message) -> None:
        say(f"prompt: {text}")
        started = time.perf_counter()
        blocks = [{"type": "text", "text": text}, *links]
        result = self.call("session/prompt", {"sessionId": session, "prompt": blocks})
        print(f"  {DIM}{result['stopReason']} after {(time.perf_counter() - started) * 1000:.0f} ms{PLAIN}")

    def leave(self) -> None:
        assert self.agent.stdin
        self.agent.stdin.close()
        self.agent.wait(10)

    def _send(self, message: Message) -> None:
        assert self.agent.stdin
        self.agent.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.agent.stdin.flush()

    def _receive(self) -> Message:
        assert self.agent.stdout
        line = self.agent.stdout.readline()
        if not line:
            raise SystemExit("the agent has ended; its standard error is above")
        return json.loads(line)


def say(text: str) -> None:
    print(f"\n{BOLD}{text}{PLAIN}")


def show(update: Message) -> None:
    """One update as a line or a few."""
    kind = update["sessionUpdate"]
    if kind == "agent_message_chunk":
        print_indented(update["content"]["text"], GREEN)
    elif kind == "tool_call":
        print(f"  {DIM}[{update['kind']}] {update['title']}{PLAIN}")
        show_content(update.get("content", []))
    elif kind == "tool_call_update":
        content = update.get("content") or running.pop(update["toolCallId"], [])
        if update.get("status") in ("completed", "failed"):
            print(f"  {DIM}[{update['status']}]{PLAIN}")
            show_content(content)
        else:
            running[update["toolCallId"]] = content
    elif kind == "usage_update":
        print(f"  {DIM}context: {update['used']:,} of {update['size']:,} tokens{PLAIN}")


def show_content(contents: list[Message]) -> None:
    for content in contents:
        if content["type"] == "diff":
            show_diff(content["oldText"] or "", content["newText"])
        else:
            print_indented(content["content"]["text"].strip("`\n"), "")


def show_diff(old: str, new: str) -> None:
    for line in [*difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=1)][3:]:
        print_indented(line, {"-": RED, "+": GREEN}.get(line[0], DIM))


def print_indented(text: str, colour: str) -> None:
    lines = text.splitlines()
    for line in lines[:14]:
        print(f"    {colour}{line[:140]}{PLAIN}")
    if len(lines) > 14:
        print(f"    {DIM}... {len(lines) - 14} more lines{PLAIN}")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="rewindow-demo-") as scratch:
        session = run(Path(scratch))
    say("The session, as `rewindow show` finds it in the store")
    subprocess.run([str(BIN / "rewindow"), "show", session], check=True)
    say("What `rewindow doctor` says: where sessions are kept, and whether everything is in place")
    subprocess.run([str(BIN / "rewindow"), "doctor"], check=True)
    print(f"\n  To look at the session again: rewindow show {session}")


def run(scratch: Path) -> str:
    notes = scratch / "notes.md"
    notes.write_text("# Notes\n\nThe context is a timeline.\n")
    editor = Editor()
    started = time.perf_counter()
    hello = editor.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    agent = hello["agentInfo"]
    say(f"{agent['name']} {agent['version']} answered in {(time.perf_counter() - started) * 1000:.0f} ms")
    where = {"cwd": str(ROOT), "additionalDirectories": [str(scratch)], "mcpServers": []}
    session = editor.call("session/new", where)["sessionId"]
    print(f"  session {session} in {ROOT}")

    editor.prompt(
        session, 'turn = view("engine/turn/turn.py", tokens=260)\nlen(read("engine/turn/turn.py").splitlines())'
    )
    link = {"type": "resource_link", "uri": notes.as_uri(), "name": "notes.md"}
    editor.prompt(session, 'notes_md.Run(freq="Sync")\nturn.SetPos("60").SetTokens(120)\nls()', link)
    say("A file in outline around a symbol, and a group of files and views in one budget")
    editor.prompt(session, 'fold = view("engine/view/fold.py", "ViewFold.apply", tokens=300, lod=1)')
    editor.prompt(session, 'views = group("engine/view/**/*.py", turn, tokens=500)')

    say("Tools are shown as what they are: a search with its places, a change as a diff, a command with its output")
    editor.prompt(session, 'len(grep(r"^class Store\\w+Error", "engine/errors.py"))')
    editor.prompt(session, f'edit("{notes}", "a timeline", "a live timeline")')
    editor.prompt(session, 'bash("wc -l engine/*.py | tail -3").code')

    say("What a statement's own code does outside is seen as well: here it writes a file, and runs a process")
    luck = scratch / "luck.txt"
    editor.prompt(
        session,
        "import pathlib, random, subprocess\n"
        "luck = random.random()\n"
        'clock = subprocess.run(["date", "+%N"], capture_output=True, text=True).stdout\n'
        f'pathlib.Path("{luck}").write_text(f"{{luck}}\\n")\n'
        "luck, clock",
    )

    say("The editor saves notes.md; the change is reported before the next statement")
    with notes.open("a") as file:
        file.write("It can be rewound.\n")
    editor.prompt(session, "total = sum(range(10)); total")

    say("A statement that never ends is cancelled; the names that were set before it are still there")
    editor.begin(
        "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "while True: total += 1"}]}
    )
    editor.finish(until_running=True)
    editor.notify("session/cancel", {"sessionId": session})
    print(f"  {DIM}{editor.finish()['stopReason']}{PLAIN}")
    editor.prompt(session, "total >= 45")

    editor.prompt(session, "/timeline")
    editor.prompt(session, "/context")

    say("The agent is killed; a new process rebuilds the names, and sets from copies what would come out differently")
    editor.agent.kill()
    editor.agent.wait(10)
    editor = Editor()
    editor.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    editor.call("session/resume", {"sessionId": session, **where})
    written = luck.stat().st_mtime_ns
    editor.prompt(session, "total, luck, clock")
    print(f"  {DIM}{luck.name} was {'not ' * (luck.stat().st_mtime_ns == written)}written again{PLAIN}")
    go_back(editor, session, luck)
    editor.leave()
    return session


def go_back(editor: Editor, session: str, luck: Path) -> None:
    say("A statement removes a file; going back to the one before brings it back, and the names with it")
    editor.prompt(session, f'pathlib.Path("{luck}").unlink(); luck = None')
    editor.prompt(session, f"/rewind {statements(session) - 1}")
    editor.prompt(session, f'luck == float(read("{luck}"))')
    editor.prompt(session, "/diff main")

    say("An earlier statement is another one, and what came behind it runs again, on a branch of their own")
    editor.prompt(session, "limit = 10")
    editor.prompt(session, "sum(range(limit))")
    editor.prompt(session, f"/edit {statements(session) - 1}\nlimit = 100")


def statements(session: str) -> int:
    """How many statements the session has where it is now; the store may be read while the agent has it open."""
    command = [str(BIN / "rewindow"), "branches", session, "--json"]
    rows = map(json.loads, subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines())
    return next(row["statements"] for row in rows if row["active"])


main()
