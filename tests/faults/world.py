"""A session of `rewindow-acp` on a disk with faults: its programs, what it was asked, and the evidence for the judge.

`World` starts and restarts the agent, performs acts drawn by `story`, and keeps what the judge needs: all messages with
the number of disk operations that preceded them, the files that must be there, and every act that left a mark outside
of what Rewindow records. A fault may come at any moment of an act (`breaking`).
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final, Literal

import psutil

from tests.faults.disk import Operation
from tests.faults.filesystem import Mounted, mounted
from tests.faults.judge import Evidence, Expected, Files, Message, Prompt, statements, violations
from tests.faults.reading import read_logs, stored_bytes
from tests.support.agents import AGENT, Agent, NoAnswerError
from tests.support.past import Unchecked
from tests.support.scripts import family, kill_each

SECRET: Final = b"sk-ant-api03-Qm7Xv2Lm9Rt4Wp8Ns3Bd6Hf1Kj5Tz0Yc"
SHORT_SECRET: Final = b"q7Xv2L9R"
"""As short as a secret may be to be hidden."""
MARKS: Final = "marks.log"
"""In the project, and ignored by git, so that neither a record nor a rewind covers it."""
SECONDS: Final = 240.0
"""The longest wait for an answer: machines that run these tests are busy, and the programs may have a low priority."""
_ENDING: Final = 15.0
_RERUN: Final = re.compile(r"Run statement \d+ again \(\d+ of \d+\)")


@dataclass(frozen=True)
class Act:
    """Something that a user does with one request."""

    text: str
    kind: Literal["statement", "rewind", "undo", "edit", "command", "mode", "fork", "delete"] = "statement"
    steps: tuple[Mapping[str, bytes | None], ...] = ()
    """The changes of files that a statement makes, one after another."""
    soft: bool = False
    """Whether another program makes these changes: they are not synced, and a kill may prevent their record."""
    mark: str | None = None
    target: int = 0
    """The statement to go back to."""
    files: Files | None = None
    """The files after an undo or a redo."""
    method: str = "session/prompt"
    params: Mapping[str, object] = field(default_factory=dict[str, object])
    """Those of another method than a prompt."""

    def written(self, found: Files) -> set[str]:
        """The paths that have a content of the act: it may have been killed before it came to the others."""
        return {path for step in self.steps for path, data in step.items() if found.get(path) == data}


@dataclass
class Moment:
    """The files that are allowed while an act is performed, or after it, until there were so many disk operations."""

    since: int
    until: int
    states: Sequence[Files]
    soft: frozenset[str]
    target: int | None = None
    """The statement to which a rewind goes."""
    modes: frozenset[str] = frozenset()


@dataclass
class Done:
    """How an act ended. `reason` is the stop reason, None if no response came; `error` is the error response."""

    reason: str | None
    error: Message | None = None


@dataclass
class Told:
    """A message that a client received, and how many disk operations preceded it at most."""

    count: int
    message: Message


@dataclass
class Counts:
    """What was done to the programs."""

    acts: int = 0
    kills: int = 0
    stops: int = 0
    failed_operations: int = 0
    wire: int = 0
    database: int = 0
    power_losses: int = 0
    restarts: int = 0
    restarts_after_power_loss: int = 0

    def add(self, other: Counts) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


def line(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in counts.items() if number)


class Recorded(Agent):
    """An agent whose messages are kept with the number of disk operations."""

    def __init__(
        self,
        disk: Mounted | None,
        told: list[Told],
        state: Path,
        environ: dict[str, str],
        *arguments: str,
        started_by: Sequence[str] = (),
    ) -> None:
        self._disk = disk
        self._told = told
        super().__init__(state, *arguments, coverage=Unchecked(), env=environ, started_by=started_by)

    def take(self, line: bytes) -> Message:
        message = super().take(line)
        self._told.append(Told(0 if self._disk is None else self._disk.count, message))
        return message

    def left(self) -> bytes:
        """Read everything to the end of the stream; the bytes of standard error."""
        assert self.process.stdin
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        with contextlib.suppress(NoAnswerError, ValueError):
            while self.next(_ENDING) is not None:
                pass
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_ENDING)
        self.process.kill()
        self.process.wait()
        self._join()
        return bytes(self.stderr)


class World:
    """One session, its project and its processes, in `base`."""

    has_commands = True
    """Whether its user can type commands, such as rewinds."""
    has_power_losses = True
    loads = 2
    """How often a restart loads the session, to compare what it shows."""
    reopens = False
    """Whether the user opens the session again after an error, in place of a restart."""

    def __init__(self, base: Path, chance: random.Random, disk: Mounted | None) -> None:
        self.base = base
        self.chance = chance
        self.disk = disk
        self.counts = Counts()
        self.project, self.state, self.home = base / "project", base / "state", base / "home"
        self.environ = {"HOME": str(self.home), "ANTHROPIC_API_KEY": SECRET.decode(), "A_TOKEN": SHORT_SECRET.decode()}
        self.told: list[Told] = []
        self.prompts: list[tuple[int, Prompt]] = []
        self.acts: dict[str, tuple[int, int]] = {}
        self.soft: set[str] = set()
        """Files that other programs wrote last."""
        self.tainted: set[str] = set()
        """Files that another program may have changed without a record, because of a fault."""
        self.moments: list[Moment] = []
        self.errors: list[bytes] = []
        self.settled = 0
        self._numbers = count(1)
        self.looks = 0
        """Statements that restarts have run, and no act."""
        self._first = 0
        """How many updates preceded the latest prompt."""
        self.kept: dict[str, int] = {}
        """How many statements the other sessions have, which are forks and copies of this one."""
        self.beside: dict[str, Recorded] = {}
        """Other agents with the same state, by their session."""
        self.modes = {"ask"}
        """The modes in which the session may be."""
        self._act = Act("")
        """The latest one."""
        self._is_acknowledged = False
        self.lost: set[str | None] = set()
        """Messages that were still arriving when a fault came, and that are on no log."""
        self.may_be_swept = False
        """Whether a removal may have failed since the agent started: the next start removes what was left."""
        self.agent: Recorded
        self.session = ""
        self.expected = Expected({})

    # --- life

    def begin(self) -> None:
        """Make the project and open the session."""
        self.project.mkdir()
        self.home.mkdir()
        (self.home / "key.txt").write_bytes(b"%s\n%s\n" % (SECRET, SHORT_SECRET))
        subprocess.run(["git", "init", "-q", str(self.project)], check=True, timeout=SECONDS)
        (self.project / ".gitignore").write_text(f"{MARKS}\n")
        (self.project / "a.txt").write_text("first\n")
        self.expected = Expected(self.files())
        self.settled = self.operations
        self._start()
        self.session = self._open()
        self._note(Act("", "command"), [self.expected.files], frozenset())

    def _start(self) -> None:
        self.agent, self._first = Recorded(self.disk, self.told, self.state, self.environ), 0
        params = {"protocolVersion": 1, "clientCapabilities": {}}
        self.agent.call("initialize", params, seconds=SECONDS)

    def _open(self) -> str:
        params = {"cwd": str(self.project), "mcpServers": []}
        return self.agent.call("session/new", params, seconds=SECONDS)["sessionId"]

    @property
    def operations(self) -> int:
        return 0 if self.disk is None else self.disk.count

    def number(self) -> int:
        """The number of the next act; it is part of what the act writes."""
        return next(self._numbers)

    # --- acts

    def states(self, act: Act) -> list[Files]:
        """The files before, during and after the act."""
        match act.kind:
            case "statement" | "edit":
                return self.expected.changed(*act.steps)
            case "rewind":
                return [self.expected.files, self.expected.after[act.target]]
            case "undo":
                assert act.files is not None
                return [self.expected.files, act.files]
            case _:
                return [self.expected.files]

    def start(self, act: Act) -> int:
        """Send the request; returns its id."""
        self.counts.acts += 1
        self._first = len(self.agent.updates())
        self._act, self._is_acknowledged = act, False
        if act.method != "session/prompt":
            if act.kind == "mode":
                self.modes |= {str(act.params["modeId"])}
            return self.agent.begin(act.method, {"sessionId": self.session, **act.params})
        self.prompts.append((1 << 60, Prompt(act.text)))
        if act.mark is not None:
            self.acts[act.mark] = (0, 1)
        return self.agent.begin_prompt(self.session, act.text)

    def wait(self, request: int, seconds: float = SECONDS) -> Done:
        """Wait for the response, and note that it came."""
        try:
            response = self.agent.response(request, seconds)
        except NoAnswerError:
            return Done(None)
        return self.done(response)

    def done(self, response: Message) -> Done:
        """Note that the latest request was answered."""
        if "result" not in response:
            return Done(None, response["error"])
        self._is_acknowledged = True
        if self._act.method != "session/prompt":
            if self._act.kind == "mode":
                self.modes = {str(self._act.params["modeId"])}
            return Done("end_turn")
        done = Done(response["result"]["stopReason"])
        self.prompts[-1] = (self.operations, Prompt(self.prompts[-1][1].text, done.reason))
        return done

    def perform(self, act: Act) -> list[str]:
        """Perform an act without a fault. Returns what is wrong afterwards."""
        states = self.states(act)
        done = self.wait(self.start(act))
        if done.reason != "end_turn":
            return [f"alive: {act.text!r:.80} ended with {done}"]
        if act.mark is not None:
            self.acts[act.mark] = (1, 1)
        wrong = self.settle(act, states, is_certain=True)
        return [*wrong, f"alive: the statement ended with {self._execution()}"] if wrong else []

    def _execution(self) -> Message | None:
        """What the agent said last of an execution."""
        notes = (update.get("_meta", {}).get("rewindow", {}) for update in reversed(self.agent.updates()))
        return next((note["execution"] for note in notes if "execution" in note), None)

    def settle(self, act: Act, states: Sequence[Files], *, is_certain: bool) -> list[str]:
        """Compare the files, and take over what the act has done. Returns what is wrong."""
        soft, found = frozenset(self.soft), self.files()
        if act.soft:
            changed = {path for step in act.steps for path in step}
            self.soft |= changed
            if not is_certain:
                self.tainted |= changed
        else:
            self.soft -= act.written(found)
        verdict, logs = self.logs()
        log = logs.get(self.session, [])
        if act.kind in ("rewind", "undo") and not is_certain:
            self.tainted |= self._named(states)
        allowed = states[-1:] if is_certain else states
        before, now = len(self.expected.after) - 1, statements(log) - self.looks
        if not is_certain and act.kind == "rewind":
            allowed = states[1:] if now == act.target else states[:1]
        if not is_certain and act.kind == "statement" and now == before:
            allowed = states[:1]
        wrong = violations(self.only(Evidence(files=found, allowed=allowed)), ["files"])
        wrong += [] if verdict == "ok" else [f"log: {verdict}"]
        if act.kind == "edit" and not is_certain:
            self.tainted |= {path for step in act.steps for path in step}
        wanted = {"statement": before + 1, "rewind": act.target}.get(act.kind)
        self._take_over(act, states, found, happened=is_certain or now == wanted)
        if act.kind in ("fork", "delete"):
            wrong += self._settle_others(act, logs)
        wanted = len(self.expected.after) - 1
        if now != wanted:
            wrong.append(f"log: the session has {now} statements after {act.text!r:.60}, and must have {wanted}")
        self._note(act, states if not is_certain else [*states[:-1], found], soft)
        return wrong

    def _take_over(self, act: Act, states: Sequence[Files], found: Files, *, happened: bool) -> None:
        match act.kind:
            case "statement" if happened:
                self.expected.ran(found)
            case "rewind" if happened:
                self.expected.went_back(act.target)
                self.expected.files = found
            case "edit" if happened:
                self.expected.edited(found)
            case "undo":
                self.expected.undid(found, states[0] if act.text == "/undo" and found == act.files else None)
            case _:
                self.expected.files = found

    def _settle_others(self, act: Act, logs: Mapping[str, list[Message]]) -> list[str]:
        """Take over a fork that came, and the removal of one that has gone. Returns what is wrong."""
        new = [name for name in logs if name not in (self.session, *self.beside, *self.kept)]
        if act.kind == "fork" and len(new) == 1:
            self.kept[new[0]] = statements(logs[self.session])
        elif act.kind == "fork" and self._is_acknowledged:
            return [f"sessions: a fork was confirmed, and there are {len(new)} new sessions"]
        name = str(act.params.get("sessionId"))
        if act.kind == "delete" and (self._is_acknowledged or name not in logs):
            self.kept.pop(name, None)
        return violations(self._others(logs), ["sessions"])

    def keep(self, name: str) -> None:
        """A copy of this session, as it is now, is another one."""
        self.kept[name] = len(self.expected.after) - 1

    def look_at_others(self) -> list[str]:
        return violations(self._others(self.logs()[1]), ["sessions"])

    def _others(self, logs: Mapping[str, list[Message]]) -> Evidence:
        others = {name: log for name, log in logs.items() if name not in (self.session, *self.beside)}
        return Evidence(sessions=others, kept=self.kept)

    def logs(self) -> tuple[str, dict[str, list[Message]]]:
        """What the store says about itself, and the events of each session."""
        return read_logs(self.state / "sessions.db")

    def stored(self) -> Mapping[str, bytes]:
        """All bytes that are stored, by their place."""
        return stored_bytes(self.state)

    def _named(self, states: Sequence[Files]) -> set[str]:
        """The files that the agent named since the latest prompt as not restored: it keeps what it said."""
        lines = [line for update in self.agent.updates()[self._first :] for line in str(update).split("\\n")]
        paths = {path for state in states for path in state}
        return {path for path in paths for line in lines if path in line and "not restored" in line}

    def only(self, evidence: Evidence) -> Evidence:
        """The evidence without the files of which nothing is certain."""

        def certain(files: Files) -> Files:
            return {path: data for path, data in files.items() if path not in self.tainted}

        evidence.files, evidence.allowed = certain(evidence.files), [certain(each) for each in evidence.allowed]
        return evidence

    def _note(self, act: Act, states: Sequence[Files], soft: frozenset[str]) -> None:
        since = self.moments[-1].until if self.moments else 0
        target = act.target if act.kind == "rewind" else None
        uncertain, modes = soft | self.soft | self.tainted, frozenset(self.modes)
        self.moments.append(Moment(since, self.operations, states, uncertain, target, modes))

    # --- evidence

    def files(self) -> Files:
        """The files of the project, without what is ignored, git's own, and temporary files."""
        return dict(_files_in(self.project))

    def leftovers(self) -> list[str]:
        """Temporary files, and records of them."""
        found = [str(path) for path in self.project.rglob(".rewindow-*")]
        return found + [str(path) for path in (self.state / "writing").glob("*")]

    def marks(self) -> Mapping[str, int]:
        path = self.project / MARKS
        return Counter(path.read_text().split()) if path.exists() else {}

    def processes(self, known: Sequence[psutil.Process] = ()) -> list[str]:
        """Wait for the end of everything that was started with this HOME; returns what is still there, and kills it."""
        return self._ended([*known, *started_in(self.home)])

    def _ended(self, processes: Sequence[psutil.Process]) -> list[str]:
        deadline = time.monotonic() + _ENDING
        alive = list({process.pid: process for process in processes}.values())
        while (alive := [process for process in alive if is_alive(process)]) and time.monotonic() < deadline:
            time.sleep(0.02)
        left: list[str] = []
        for process in alive:
            with contextlib.suppress(psutil.Error):
                left.append(f"{process.pid} {' '.join(process.cmdline())[:100]}")
                process.kill()
        return left

    def end(self, known: Sequence[psutil.Process] = (), *, is_orderly: bool = True) -> list[str]:
        """Let the agent leave, or take note that it has. Returns what is wrong.

        If somebody killed all processes at once, nobody is left to end what they were just starting.
        """
        everybody = [*known, *family(psutil.Process(self.agent.process.pid))] if is_orderly else list(known)
        self.errors.append(self.agent.left())
        left = self.processes(everybody)
        responses = [message for message in self.agent.received if "method" not in message]
        return violations(Evidence(processes=left, responses=responses), ["processes", "answers"])

    def abandon(self) -> None:
        """Kill everything that is still there."""
        with contextlib.suppress(AttributeError, psutil.Error):  # because it may not have been started
            kill_each([*family(psutil.Process(self.agent.process.pid)), *started_in(self.home)])
            self.agent.left()
        for agent in self.beside.values():
            with contextlib.suppress(psutil.Error):
                kill_each(family(psutil.Process(agent.process.pid)))
            agent.left()

    def load(self) -> Message:
        """The response to a load of the session."""
        params = {"sessionId": self.session, "cwd": str(self.project), "mcpServers": []}
        return self.agent.response(self.agent.begin("session/load", params), SECONDS)

    def restart(self) -> list[str]:
        """Start the agent and load the session twice. Returns what is wrong with its story."""
        self.counts.restarts += 1
        self.may_be_swept = False
        before = [told.message for told in self.told]
        self._start()
        return self._reopened(before)

    def reopen(self) -> list[str]:
        """Load the session again in the same agent. Returns what is wrong with its story."""
        return self._reopened([told.message for told in self.told])

    def _reopened(self, before: Sequence[Message]) -> list[str]:
        replays: list[list[Message]] = []
        mode = ""
        for _ in range(self.loads):
            first = len(self.agent.received)
            response = self.load()
            if "result" not in response:
                return [f"alive: the session cannot be loaded: {response['error']}"]
            replays.append(updates_of(self.session, self.agent.received[first:]))
            mode = response["result"]["modes"]["currentModeId"]
        verdict, logs = self.logs()
        evidence = Evidence(
            prompts=[prompt for _, prompt in self.prompts],
            updates=self.without_lost(updates_of(self.session, before), logs.get(self.session, [])),
            replays=replays,
            log=logs.get(self.session, []),
            database=verdict,
            marks=self.marks(),
            acts=self.acts,
            mode=mode,
            modes=self.modes,
        )
        wrong = violations(evidence, ["acknowledged", "log", "story", "once", "mode"])
        self.modes = {mode}
        if self._act.kind in ("fork", "delete"):  # because what it has done is not known yet
            return wrong
        return [*wrong, *violations(self._others(logs), ["sessions"])]

    def recover(self) -> list[str]:
        """Use the session after a failure of the disk that may have come late. Returns what is wrong."""
        return []

    def without_lost(self, updates: Sequence[Message], log: Sequence[Message]) -> list[Message]:
        """The updates without messages that were still arriving at an earlier fault. The latest one may be another."""
        kept = [each for each in updates if each.get("messageId") not in self.lost]
        chunks = [each for each in kept if each["sessionUpdate"] == "agent_message_chunk"]
        latest = list(dict.fromkeys(each.get("messageId") for each in chunks))[-1:]
        self.lost |= {*latest} - {event.get("message_id") for event in log}
        return kept

    def last_look(self) -> list[str]:
        """After the end of the agent: leftovers, and secrets in all that was stored, sent or printed."""
        wrong = [each for session in self.beside for each in self._end_beside(session)]
        if self.may_be_swept:
            wrong += [*self.restart(), *self.end()]
        traces = dict(self.stored())
        traces["messages"] = b"\n".join(str(told.message).encode() for told in self.told)
        traces["standard error"] = b"".join(self.errors)
        evidence = Evidence(leftovers=self.leftovers(), traces=traces, secrets=[SECRET, SHORT_SECRET])
        return wrong + violations(evidence, ["temporary", "secrets"])

    # --- other programs with the same state

    def another(self) -> tuple[str, Recorded]:
        """The session of another agent, and the agent: it has a home of its own, which tells its processes apart."""
        if not self.beside:
            agent = Recorded(self.disk, [], self.state, {**self.environ, "HOME": str(self.base / "another")})
            agent.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}}, seconds=SECONDS)
            params = {"cwd": str(self.project), "mcpServers": []}
            self.beside[agent.call("session/new", params, seconds=SECONDS)["sessionId"]] = agent
        return next(iter(self.beside.items()))

    def _end_beside(self, session: str) -> list[str]:
        agent = self.beside[session]
        everybody = family(psutil.Process(agent.process.pid))
        self.errors.append(agent.left())
        verdict, logs = self.logs()
        evidence = Evidence(processes=self._ended(everybody), log=logs.get(session, []), database=verdict)
        return violations(evidence, ["processes", "log"])

    def program(self, *arguments: str, patience: float = SECONDS) -> int | None:
        """Run `rewindow` with the same state. Returns its exit code, None if it was killed after so many seconds."""
        environ = {**os.environ, **self.environ, "REWINDOW_STATE_DIR": str(self.state)}
        program = subprocess.Popen(
            [AGENT.with_name("rewindow"), *arguments],
            cwd=self.project,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            self.errors.append(program.communicate(timeout=patience)[0])
        except subprocess.TimeoutExpired:
            program.kill()
            self.errors.append(program.communicate()[0])
            return None
        return program.returncode

    def record(self, path: Path) -> Sequence[Operation]:
        assert self.disk is not None
        return self.disk.record(path)


def updates_of(session: str, messages: Iterable[Message]) -> list[Message]:
    """The updates of the session; forks have their own.

    Leaves out how far statements have come that run again: that is shown as tool calls, and never recorded.
    """
    params = (message["params"] for message in messages if message.get("method") == "session/update")
    updates = [each["update"] for each in params if each["sessionId"] == session]
    progress = {each["toolCallId"] for each in updates if _RERUN.fullmatch(str(each.get("title")))}
    return [each for each in updates if each.get("toolCallId") not in progress]


def _files_in(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        is_hidden = name.startswith(".git/") or path.name.startswith(".rewindow-") or name == MARKS
        if path.is_file() and not is_hidden:
            yield name, path.read_bytes()


def is_alive(process: psutil.Process) -> bool:
    """Whether it runs. Another process may have its number by now."""
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def started_in(home: Path) -> list[psutil.Process]:
    """The processes with that HOME, whoever is their parent."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("HOME") == str(home):
                found.append(process)
    return found


@contextmanager
def opened(
    folder: Path, chance: random.Random, kind: Callable[[Path, random.Random, Mounted | None], World] = World
) -> Generator[World]:
    """A world with a session, on a file system of its own. Raises OSError if none may be mounted."""
    base = folder / "disk"
    base.mkdir(parents=True)
    try:
        with mounted(base) as disk:
            world = kind(base, chance, disk)
            try:
                world.begin()
                yield world
            finally:
                world.abandon()
    finally:
        shutil.rmtree(base, ignore_errors=True)
