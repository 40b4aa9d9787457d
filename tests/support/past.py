"""A session over ACP that outlives its processes: it is loaded, its worker or its agent is killed, and it goes on."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from itertools import count
from pathlib import Path

from engine.core.ids import BlobDigest
from engine.log.store.schema import unpack
from engine.session.live_environment import INTERRUPTED_SENTENCE
from tests.support.acp_schema import Coverage, Edition
from tests.support.agents import SECONDS, Agent
from tests.support.scripts import Gate, assert_gone, kill_each, load, workers
from tests.support.transcripts import Message

LOSSES = ("load", "worker", "agent")
"""How a namespace is lost: with its agent, which ends; by `kill -9` of the worker, or of the agent, in a statement."""
REBUILT = "Rebuild the namespace"


class Unchecked(Coverage):
    """For sessions by the hundred: other tests check the same messages, and a check takes longer than a turn."""

    def check(self, message: Message, request_method: str | None = None, edition: Edition = "stable") -> None:
        """Takes it as it is."""


class Life:
    """One session of the project in `folder / "project"`, in the direct model unless `arguments` name another."""

    def __init__(self, folder: Path, *arguments: str, coverage: Coverage | None = None, **settings: str) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.project = folder / "project"
        self.project.mkdir(exist_ok=True)
        self._arguments = arguments
        self._coverage = coverage
        self._settings = settings
        self._gates = count(1)
        self.agent = self.start()
        self.session = self.agent.open(self.project)

    def __enter__(self) -> Life:
        return self

    def __exit__(self, *_: object) -> None:
        self.agent.close()

    # --- what is done in it -------------------------------------------------------------------------------------------

    def run(self, source: str, seconds: float = 30.0) -> Message:
        """Runs it as a prompt; returns what an editor is told of its execution."""
        assert self.agent.prompt(self.session, source, seconds=seconds) == "end_turn"
        return self.executed()

    def ok(self, *sources: str) -> None:
        """Runs statements that have to succeed."""
        for source in sources:
            note = self.run(source)
            assert note["status"] == "ok", (source, note)

    def value(self, source: str) -> str | None:
        """The displayed value of a statement that has to succeed."""
        note = self.run(source)
        assert note["status"] == "ok", (source, note)
        return note["value"]

    def cancelled(self, source: str) -> None:
        """Runs a statement until it stands at a gate, which comes after it, and cancels it there."""
        gate = self.gate()
        prompt = self.agent.begin_prompt(self.session, f"{source}\n{gate.source}")
        gate.reached()
        self.agent.notify("session/cancel", {"sessionId": self.session})
        assert self.agent.response(prompt)["result"]["stopReason"] == "cancelled"
        gate.release()

    def gate(self) -> Gate:
        return Gate(self.folder / f"gate{next(self._gates)}")

    def file(self, name: str, text: str) -> Path:
        """Writes a file of the project, as somebody else does."""
        path = self.project / name
        path.write_text(text)
        return path

    # --- how it is lost -----------------------------------------------------------------------------------------------

    def lose(self, how: str) -> None:
        """Loses the namespace in one of LOSSES; the next statement has it rebuilt."""
        if how == "load":
            self.agent.close()
            self.reopen()
        else:
            self.killed_in("", how)

    def killed_in(self, source: str, how: str, committed: str = "") -> None:
        """Runs the source; when it has ended but its statement has not, `kill -9` of the worker or of the agent.

        Where a kind is given, an event of it is on disk by then: an agent that is killed before its commit loses it.
        """
        gate = self.gate()
        prompt = self.agent.begin_prompt(self.session, f"{source}\n{gate.source}")
        gate.reached()
        if committed:
            until_committed(self.state, self.session, committed)
        if how == "worker":
            killed = workers(self.agent)
            kill_each(killed)
            assert_gone(killed)
            self.agent.response(prompt)
        else:
            assert how == "agent"
            killed = workers(self.agent)
            self.agent.kill()
            assert_gone(killed)
            self.reopen()
        gate.release()

    def start(self) -> Agent:
        """A new process over the same state."""
        return Agent(self.state, *self._arguments, coverage=self._coverage, env=self._settings)

    def reopen(self) -> None:
        """Loads the session in a new process."""
        self.agent = self.start()
        self.agent.initialize()
        load(self.agent, self.session, self.project)

    # --- what is seen of it -------------------------------------------------------------------------------------------

    def executed(self) -> Message:
        """What the editor was told of the latest execution."""
        notes = (update.get("_meta", {}).get("rewindow", {}) for update in reversed(self.agent.updates()))
        return next(note["execution"] for note in notes if "execution" in note)

    def reports(self) -> list[list[str]]:
        """Of each rebuild that this editor was shown: a line for each thing it has to say.

        But for the statement in which the agent was killed: it is named only where its beginning was on disk by then.
        """
        shown = [call for call in self.agent.updates("tool_call") if call["title"] == REBUILT]
        return [_told(call["content"][0]["content"]["text"]) for call in shown]

    def events(self, *kinds: str) -> list[Message]:
        """The log as it is on disk; of these kinds, or all."""
        return events_in(self.state, self.session, *kinds)


def events_in(state: Path, session: str, *kinds: str) -> list[Message]:
    """A session's committed events, while some process may have it open; of these kinds, or all."""
    with closing(sqlite3.connect(f"file:{state / 'sessions.db'}?mode=ro", uri=True)) as connection:
        rows = connection.execute("SELECT kind, json FROM events WHERE session = ? ORDER BY seq", (session,)).fetchall()
    return [{**json.loads(text), "kind": kind} for kind, text in rows if not kinds or kind in kinds]


def until_committed(state: Path, session: str, kind: str, times: int = 1) -> None:
    """Waits until so many events of the kind are on disk."""
    deadline = time.monotonic() + SECONDS
    while len(events_in(state, session, kind)) < times:
        assert time.monotonic() < deadline, f"no {kind} was committed"
        time.sleep(0.005)  # another process commits, and tells nobody


def said_of(report: list[str], statement: int) -> list[str]:
    """The lines of a report on one statement, without its label."""
    label = f"<statement {statement}> "
    return [line.removeprefix(label) for line in report if line.startswith(label)]


def blob(state: Path, digest: str) -> bytes:
    """A content of the store."""
    with closing(sqlite3.connect(f"file:{state / 'sessions.db'}?mode=ro", uri=True)) as connection:
        ((packed,),) = connection.execute("SELECT data FROM blobs WHERE digest = ?", (digest,))
    return unpack(BlobDigest(digest), packed)


def _told(text: str) -> list[str]:
    head, *lines = [line for line in text.splitlines() if line.strip("`")]
    assert "ran again in a new worker" in head, text
    return [line for line in lines if INTERRUPTED_SENTENCE not in line]


def names_in(lines: Iterable[str]) -> set[str]:
    """Every word of them that may be a name."""
    return {word for line in lines for word in re.findall(r"[^\W\d]\w*", line)}
