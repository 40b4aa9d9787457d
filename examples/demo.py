"""Drives `rewindow-acp` as an editor would and prints what happens. Run it with `make demo`.

Plain ACP over pipes with nothing but the standard library, so that it also shows how little a client needs. In a small
project that it makes, it opens a view, follows a file that somebody else changes, runs tools, cancels a statement that
never ends, puts another statement in the place of an earlier one, goes over to the branch that was left and back to
before a file was removed, and kills the agent, whose next process has all names again.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from difflib import unified_diff
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent
COLOURS = ("\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[36m", "\033[0m")
BOLD, DIM, RED, GREEN, CYAN, PLAIN = COLOURS if sys.stdout.isatty() else ("",) * 6
WIDTH = min(shutil.get_terminal_size().columns, 120)
MOST_LINES = 20
SAID_ABOVE = ("```python", "```sh", "(no output)")
"""How content begins that says what the title does, or nothing."""
FILES = {
    "orders.csv": "item,price\nlamp,40\nchair,85\ndesk,210\nshelf,65\n",
    "notes.md": "# Orders\n\nThe report adds up orders.csv, with tax.\n",
}

Message = dict[str, Any]


class Editor:
    """One agent process and the conversation with it."""

    def __init__(self) -> None:
        self.agent = subprocess.Popen([str(BIN / "rewindow-acp")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.requests = 0
        self.said = ""
        self.used = ""
        self.statement = 0
        self.running: dict[str, list[Message]] = {}
        """The content of each call that has not ended: its output so far, or the change that it made."""
        self.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})

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
                self.show(update)
                if until_running and update.get("status") == "in_progress":
                    return update
            elif "error" in message:
                raise SystemExit(f"the agent answered with an error: {message['error']['message']}")
            else:
                return message["result"]

    def prompt(self, session: str, text: str) -> None:
        self.said, self.statement = text, 0
        print_prompt(text)
        started = time.perf_counter()
        result = self.call("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]})
        milliseconds = (time.perf_counter() - started) * 1000
        number = f"statement {self.statement}, " if self.statement else ""
        print(f"  {DIM}{number}{result['stopReason']} after {milliseconds:.0f} ms{self.used}{PLAIN}")

    def show(self, update: Message) -> None:
        """One update as a line or a few."""
        kind = update["sessionUpdate"]
        if kind == "agent_message_chunk":
            print_message(update["content"]["text"])
        elif kind == "tool_call":
            if update.get("rawInput", {}).get("command") == self.said:  # which stands above
                self.statement = update["rawInput"]["statement"]
            else:
                print_line(f"  [{update['kind']}] {update['title']}", CYAN)
            self.running[update["toolCallId"]] = update.get("content", [])
            if update.get("status") == "completed":
                self.show_end(update)
        elif kind == "tool_call_update":
            self.running[update["toolCallId"]] = update.get("content") or self.running.get(update["toolCallId"], [])
            if update.get("status") in ("completed", "failed"):
                self.show_end(update)
        elif kind == "usage_update":
            self.used = f", context {update['used']:,} of {update['size']:,} tokens"

    def show_end(self, update: Message) -> None:
        """What a call that has ended has come to."""
        for content in self.running.pop(update["toolCallId"]):
            if content["type"] == "diff":
                print_diff(content["oldText"] or "", content["newText"])
            elif not content["content"]["text"].startswith(SAID_ABOVE):
                print_text(content["content"]["text"], "")

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


def print_prompt(text: str) -> None:
    for number, line in enumerate(text.splitlines()):
        print_line(f"{'  ' if number else '> '}{line}", BOLD)


def print_diff(old: str, new: str) -> None:
    for line in [*unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0)][3:]:
        print_line(f"    {line}", {"-": RED, "+": GREEN}.get(line[0], DIM))


def print_message(text: str) -> None:
    """What the agent says: prose is wrapped at the width of the terminal."""
    room = WIDTH - 4
    lines = (line if len(line) <= room else textwrap.fill(line, room) for line in text.splitlines())
    print_text("\n".join(lines), GREEN)


def print_text(text: str, colour: str) -> None:
    """A text without the marks of Markdown and without empty lines, each line cut at the width of the terminal."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("```")]
    for line in lines[:MOST_LINES]:
        print_line(f"    {line}", colour)
    if len(lines) > MOST_LINES:
        print_line(f"    ... {len(lines) - MOST_LINES} more lines", DIM)


def print_line(line: str, colour: str) -> None:
    print(f"{colour}{line if len(line) <= WIDTH else line[: WIDTH - 1] + '…'}{PLAIN}")


def main() -> None:
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="rewindow-demo-") as project:
        for name, text in FILES.items():
            Path(project, name).write_text(text)
        session = run(Path(project))
    say(f"That took {time.perf_counter() - started:.0f} s. All of it is on disk, and you can look at it:")
    print(f"  rewindow show {session}\n  rewindow branches {session}\n  rewindow doctor   says whether all is in place")


def run(project: Path) -> str:
    editor = Editor()
    where: Message = {"cwd": str(project), "mcpServers": []}
    session = editor.call("session/new", where)["sessionId"]

    say("Each prompt is a statement, as a model would write it. A view stays within its budget")
    editor.prompt(session, 'orders = view("orders.csv", tokens=30)')

    say("Tools are shown as what they are: a search, a change, a command")
    editor.prompt(session, 'len(grep("chair|desk", "orders.csv"))')
    editor.prompt(session, 'edit("notes.md", "with tax", "with the tax")')
    editor.prompt(session, 'bash("wc -l orders.csv").code')

    say("A view follows its file: somebody saves notes.md, and the change is reported")
    editor.prompt(session, 'notes = view("notes.md").Run(freq="Sync")')
    with (project / "notes.md").open("a") as file:
        file.write("It is updated each month.\n")
    editor.prompt(session, 'prices = [int(line.split(",")[1]) for line in read("orders.csv").splitlines()[1:]]')

    say("A statement that never ends is cancelled; the names are still there")
    editor.said = "while True: pass"
    print_prompt(editor.said)
    editor.begin("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": editor.said}]})
    editor.finish(until_running=True)
    editor.notify("session/cancel", {"sessionId": session})
    print(f"  {DIM}{editor.finish()['stopReason']}{PLAIN}")
    editor.prompt(session, "rate = 0.19")
    editor.prompt(session, "total = sum(prices) * (1 + rate); total")
    editor.prompt(session, 'write("report.md", f"Total: {total:.2f}\\n")')
    travel(editor, session)

    say("The agent is killed; the next process has the names again, and does nothing twice")
    editor.agent.kill()
    editor.agent.wait(10)
    editor = Editor()
    editor.call("session/resume", {"sessionId": session, **where})
    editor.prompt(session, 'total, read("report.md")')
    editor.leave()
    return session


def travel(editor: Editor, session: str) -> None:
    say("An earlier statement is replaced, and what came after it runs again")
    editor.prompt(session, "/edit 8 --live\nrate = 0.07")
    say("That made a branch of its own; the old one is still there, with its files")
    editor.prompt(session, "/branch main")
    editor.prompt(session, 'total, read("report.md")')
    editor.prompt(session, "/diff main b1")
    say("A statement removes a file; going back to the one before brings it back")
    editor.prompt(session, 'import os; os.remove("report.md"); total = None')
    editor.prompt(session, "/rewind 11")
    editor.prompt(session, "/timeline")


main()
