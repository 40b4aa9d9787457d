"""What adversarial sessions have in common: scripted replies, gates to stop at, and what must be true after each."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import psutil

from tests.support.agents import SECONDS, Agent, NoAnswerError

Message = dict[str, Any]

QUIET_SECONDS = 0.25
"""In which nothing may come after the end of a turn."""


class Gate:
    """A named pipe at which a statement waits: the test knows when it has come there, and decides when it goes on."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._path = path
        self._held: int | None = None
        self.source = f"open({str(path)!r}, 'rb').read()"

    def reached(self, seconds: float = SECONDS) -> None:
        """Waits until somebody reads, and holds them there."""
        deadline = time.monotonic() + seconds
        while self._held is None:
            try:
                self._held = os.open(self._path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO or time.monotonic() > deadline:
                    raise
                time.sleep(0.002)  # because a pipe cannot be waited for until it has a reader

    def release(self) -> None:
        """Lets whoever is held go on; does nothing where nobody is."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def pass_one(self) -> None:
        """Lets the next reader through."""
        self.reached()
        self.release()


# --- what is said and asked ---------------------------------------------------------------------------------------


def scripted(folder: Path, *replies: Message) -> str:
    """The model that plays `replies`, as an argument of `--model`."""
    script = folder / "replies.jsonl"
    script.write_text("\n".join(json.dumps(reply) for reply in replies))
    return f"scripted:{script}"


def prompt_params(session: str, text: str, kind: str | None = None) -> Message:
    """The parameters of session/prompt; `kind` is what it wants to be while a turn is running."""
    meta = {} if kind is None else {"_meta": {"rewindow": {"promptKind": kind}}}
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}], **meta}


def update_in(message: Message) -> Message:
    """The update that a notification carries, {} where it is none."""
    return message.get("params", {}).get("update", {}) if message.get("method") == "session/update" else {}


def runs(message: Message) -> bool:
    """Whether it says that a statement has begun."""
    return update_in(message).get("status") == "in_progress"


def asks_permission(message: Message) -> bool:
    return message.get("method") == "session/request_permission"


def says(text: str, kind: str = "agent_message_chunk") -> Any:
    """A test for an update of this kind that holds `text`."""
    return lambda message: (
        update_in(message).get("sessionUpdate") == kind and text in json.dumps(update_in(message), ensure_ascii=False)
    )


def responses(agent: Agent, ids: Iterable[int | str], seconds: float = SECONDS) -> dict[int | str, Message]:
    """The responses to these requests, in the order in which they came; each comes exactly once."""
    wanted = set(ids)
    found: dict[int | str, Message] = {}
    deadline = time.monotonic() + seconds
    while wanted - set(found):
        message = agent.next(max(0.01, deadline - time.monotonic()))
        if message is None:
            raise NoAnswerError(f"the agent left without answering {wanted - set(found)}: {agent.stderr.decode()}")
        if "method" not in message and message.get("id") in wanted:
            assert message["id"] not in found, message
            found[message["id"]] = message
    return found


def reason(response: Message) -> str:
    assert "result" in response, response
    return response["result"]["stopReason"]


def last_value(agent: Agent) -> str | None:
    """What the latest statement evaluated to."""
    notes = (update.get("_meta", {}).get("rewindow", {}) for update in reversed(agent.updates()))
    return next(note["execution"]["value"] for note in notes if "execution" in note)


def load(agent: Agent, session: str, cwd: Path, method: str = "session/load") -> Any:
    return agent.call(method, {"sessionId": session, "cwd": str(cwd), "mcpServers": []})


# --- what must be true afterwards -----------------------------------------------------------------------------------


def assert_cancelled(agent: Agent, *prompts: int | str, sessions: int = 1) -> None:
    """All of them end as cancelled, nothing follows, and nothing runs any more."""
    for response in responses(agent, prompts).values():
        assert reason(response) == "cancelled"
    assert_at_rest(agent, sessions)


def assert_at_rest(agent: Agent, sessions: int = 1) -> None:
    """Nothing is said, and of the agent's processes only the zygote and idle workers are left."""
    host = psutil.Process(agent.process.pid)
    before = _seconds_used(workers(agent))
    agent.quiet(QUIET_SECONDS)
    left = family(host)
    assert len(left) <= 1 + sessions, left
    used = _seconds_used(workers(agent))
    assert all(seconds - before.get(pid, 0.0) < QUIET_SECONDS / 2 for pid, seconds in used.items()), (before, used)


def family(process: psutil.Process) -> list[psutil.Process]:
    """Its living descendants."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return [child for child in process.children(recursive=True) if _is_alive(child)]
    return []


def workers(agent: Agent) -> list[psutil.Process]:
    """Its living descendants but for the zygote, which is its child."""
    host = psutil.Process(agent.process.pid)
    own = host.children()
    return [process for process in family(host) if process not in own]


def kill_each(processes: Iterable[psutil.Process]) -> None:
    """`kill -9` of each that has not ended: one may end with another."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def assert_gone(processes: Sequence[psutil.Process], seconds: float = 10.0) -> None:
    """All of them have ended; whoever adopted them may take its time to notice."""
    deadline = time.monotonic() + seconds
    while left := [process for process in processes if _is_alive(process)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.005)  # because the end of somebody else's child cannot be waited for


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _seconds_used(processes: Iterable[psutil.Process]) -> dict[int, float]:
    used: dict[int, float] = {}
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            used[process.pid] = times.user + times.system
    return used


def logged(state_dir: Path, session: str) -> list[Message]:
    """The session's log, as another process reads it."""
    done = subprocess.run(
        [str(Agent.command().parent / "rewindow"), "show", session, "--events"],
        env={**os.environ, "REWINDOW_STATE_DIR": str(state_dir)},
        capture_output=True,
        check=True,
        timeout=30,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


# --- what a client makes of updates -----------------------------------------------------------------------------------


def transcript(updates: Iterable[Message]) -> Message:
    """What a client that follows the protocol holds after these updates.

    `order`: messages and tool calls as they first appeared; `messages`: the chunks of each joined; `calls`: each with
    its patches applied; `last`: the latest value of what replaces itself. What the user typed is left out, because it
    is only sent when a session is loaded.
    """
    order: dict[tuple[str, str], None] = {}
    messages: dict[str, str] = {}
    calls: dict[str, Message] = {}
    last: dict[str, Message] = {}
    for update in updates:
        kind = update["sessionUpdate"]
        rest = {key: value for key, value in update.items() if key != "sessionUpdate"}
        match kind:
            case "user_message_chunk":
                pass
            case "agent_message_chunk" | "agent_thought_chunk":
                order[kind, update["messageId"]] = None
                messages[update["messageId"]] = messages.get(update["messageId"], "") + update["content"]["text"]
            case "tool_call" | "tool_call_update":
                order["tool_call", update["toolCallId"]] = None
                calls[update["toolCallId"]] = {**calls.get(update["toolCallId"], {}), **rest}
            case "session_info_update":
                last[kind] = {**last.get(kind, {}), **rest}  # because a field left out is unchanged
            case _:
                last[kind] = rest
    return {"order": list(order), "messages": messages, "calls": calls, "last": last}
