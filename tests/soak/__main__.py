"""`python -m tests.soak`: works like users and clients for a while, and judges what grows. Exits 1 if something does.

The agent has two sessions of up to 2,000 turns, the server 20 clients. What the log takes is measured afterwards: new
processes load the same sessions, and what they take beyond empty ones may also grow during the run. Commands that read
the log, too, are compared with a load. The agent's sessions have checkpoints, whose number is limited; those of the
server have none.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.soak import model
from tests.soak.clients import TOKEN, Agent, Server, WebClient, environment
from tests.soak.planted import LEAKS
from tests.soak.report import FILLING, READS_LOG, Verdict, judge, table, write
from tests.soak.sampling import taken
from tests.soak.work import CLIENTS, SERVED, SESSIONS, Caller, Measured, Pace, User, sample

TURNS: Final = 2_000
CALLS: Final = 900
"""Of each session and of each client in half an hour."""
NAMESPACE: Final = "namespace"
"""The leak that is none of the products: statements that keep more and more."""
_BIN: Final = Path(sys.executable).parent
_BUDGET: Final = "16000"
"""Tokens: a small context is condensed again and again during the run."""
_SHOWN: Final = 20
COMMANDS: Final = 8


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--turns", type=int, default=TURNS, help="most turns of each session")
    parser.add_argument("--calls", type=int, default=CALLS, help="most calls of each client")
    parser.add_argument("--plant", choices=[*LEAKS, NAMESPACE], help="a leak, which the run must notice")
    parser.add_argument("--results", type=Path, help="where to write the samples and the charts")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        try:
            measured, verdicts = run(
                Path(folder), options.seconds, turns=options.turns, calls=options.calls, plant=options.plant
            )
        except PermissionError as error:
            print(f"skipped: {error}; only root can measure a program that hides its memory")
            return 0
    if options.results:
        write(options.results, measured, verdicts)
    print(table(verdicts))
    requests = sum(map(len, measured.latencies.values()))
    print(f"\n{measured.turns} turns, {measured.calls} calls, {requests} requests were timed")
    print(*(f"FAILED at {each}" for each in measured.wrong[:_SHOWN]), sep="\n")
    return 1 if measured.wrong or any(each.is_wrong for each in verdicts) else 0


def run(
    folder: Path, seconds: float, *, turns: int, calls: int, plant: str | None = None, checkpoints: bool = True
) -> tuple[Measured, list[Verdict]]:
    """Work, measure and judge. Without checkpoints a run may be short, because their number need not be complete."""
    measured, sessions = Measured(), list[str]()
    for program in ("agent", "server"):
        model.prepare(folder / program / "project")
    with model.model_server(leaky=plant == NAMESPACE) as found:
        variables = {**found, "REWINDOW_RESTORE_BY": "checkpoints" if checkpoints else "re-execution"}
        with _agent(folder, variables, plant) as agent, _server(folder, plant) as server:
            users = [User(agent, folder / "agent" / "project", measured) for _ in range(SESSIONS)]
            callers = [Caller(server, n, folder / "server" / "project", measured) for n in range(CLIENTS)]
            sessions = [user.session for user in users]
            programs = {
                "agent": (agent.process.pid, folder / "agent" / "state"),
                "server": (server.process.pid, folder / "server" / "state"),
            }
            try:
                workers = [*((user, turns) for user in users), *((each, calls) for each in callers)]
                _work(measured, workers, programs, seconds)
            finally:
                for caller in callers:
                    caller.close()
            # In the process that has worked, because one that has just loaded the log still has it in memory.
            short = _short(agent, users[0].project)
            slow, fast = _commands(agent, users[0].session, users[0].statements), _commands(agent, short, COMMANDS)
        load = _load(folder, variables, users[0], short)
        for reading in (LogReading(command, slow[command] - fast[command], load) for command in slow):
            print(reading.sentence)
            if reading.is_wrong:
                measured.failed(reading.sentence)
        log = {
            **_growth(_of_agent(folder, variables, sessions), "agent", max(1, measured.turns)),
            **_growth(_of_server(folder), "server", max(1, measured.calls)),
        }
    return measured, judge(measured, log, FILLING if checkpoints else dict.fromkeys(FILLING, 0))


def _work(
    measured: Measured,
    workers: Sequence[tuple[User | Caller, int]],
    programs: dict[str, tuple[int, Path]],
    seconds: float,
) -> None:
    """Let everybody work until all are done, or the time is over."""
    ended = threading.Event()

    def guarded(worker: User | Caller, acts: int) -> None:
        try:
            worker.work(Pace(seconds, acts, ended))
        except Exception as error:
            measured.failed(f"{type(worker).__name__} ended with {error!r}")
            raise

    threads = [threading.Thread(target=guarded, args=each) for each in workers]
    sampler = threading.Thread(target=sample, args=(measured, programs, ended, seconds))
    for thread in [*threads, sampler]:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    finally:
        ended.set()
        sampler.join()


# --- what the log takes ---------------------------------------------------------------------------------------------

Taken = dict[str, float]


def _growth(measured: tuple[Taken, Taken], program: str, work: int) -> dict[str, float]:
    """What each unit of work takes in processes that have just loaded the sessions, beyond those of empty ones."""
    empty, loaded = measured
    memories = [name for name in empty if name.endswith("memory")]
    return {f"{program}: {name}": max(0.0, (loaded[name] - empty[name]) / work) for name in memories}


def _of_agent(folder: Path, variables: dict[str, str], sessions: Sequence[str]) -> tuple[Taken, Taken]:
    state, project = folder / "agent" / "state", folder / "agent" / "project"
    with _agent(folder, variables, None) as agent:
        for session in [agent.new(project) for _ in sessions]:
            agent.prompt(session, "/run 6 * 7")
        empty = taken(agent.process.pid, state)
    with _agent(folder, variables, None) as agent:
        for session in sessions:
            agent.call("session/load", {"sessionId": session, "cwd": str(project), "mcpServers": []})
            agent.prompt(session, "/run 6 * 7")
        return empty, taken(agent.process.pid, state)


# --- what reads the log -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LogReading:
    """Seconds that a command takes at the end of the run beyond its time in a short session; and a load of the log."""

    command: str
    seconds: float
    load: float

    @property
    def is_wrong(self) -> bool:
        """Whether it reads the log more than once, or does something else that grows with it."""
        return self.seconds > self.load

    @property
    def sentence(self) -> str:
        return (
            f"at the end, {self.command} takes {self.seconds * 1000:.0f} ms more than in a short session, "
            f"and a load {self.load * 1000:.0f} ms more"
        )


def _commands(agent: Agent, session: str, statements: int) -> dict[str, float]:
    """Seconds of each command that reads the log, the median of several."""
    found = dict[str, float]()
    for command in sorted(READS_LOG):
        times: list[float] = []
        for last in range(1, COMMANDS):
            text = f"{command} {max(0, statements - last)}" if command == "/rewind" else command
            begun = time.perf_counter()
            agent.prompt(session, text)
            times.append(time.perf_counter() - begun)
        found[command] = statistics.median(times)
    return found


def _short(agent: Agent, project: Path) -> str:
    session = agent.new(project)
    for number in range(COMMANDS):
        agent.prompt(session, f"/run {number}")
    return session


def _load(folder: Path, variables: dict[str, str], user: User, short: str) -> float:
    """Seconds that a load of the user's session takes, without its story, beyond one of a short session."""
    with _agent(folder, variables, None) as agent:
        found: list[float] = []
        for session in (short, user.session):
            begun = time.perf_counter()
            agent.call("session/resume", {"sessionId": session, "cwd": str(user.project), "mcpServers": []})
            found.append(time.perf_counter() - begun)
    return found[1] - found[0]


def _of_server(folder: Path) -> tuple[Taken, Taken]:
    found: list[Taken] = []
    for names in ([f"empty{n}" for n in range(len(SERVED))], SERVED):
        with _server(folder, None) as server:
            for name in names:
                client = WebClient(server, name, is_old=False)
                client.call("tools/call", {"name": "run", "arguments": {"code": "6 * 7"}})
                client.leave()
            found.append(taken(server.process.pid, folder / "server" / "state"))
    return found[0], found[1]


@contextmanager
def _agent(folder: Path, variables: dict[str, str], plant: str | None) -> Iterator[Agent]:
    options = ("--model", "provider:openai:gpt-5", "--context-budget", _BUDGET)
    place = folder / "agent"
    with ExitStack() as stack:
        agent = Agent(
            [*_program("rewindow-acp", plant), *options],
            environment(place / "state", place, **variables),
            folder / "agent.log",
        )
        stack.callback(agent.close)
        yield agent


@contextmanager
def _server(folder: Path, plant: str | None) -> Iterator[Server]:
    place = folder / "server"
    options = ("--root", str(place / "project"), "--http", "0", "--allow-run=unsandboxed")
    with ExitStack() as stack:
        server = Server(
            [*_program("rewindow-mcp", plant), *options],
            environment(place / "state", place, REWINDOW_MCP_TOKEN=TOKEN, REWINDOW_RESTORE_BY="re-execution"),
            folder / "server.log",
        )
        stack.callback(server.close)
        yield server


def _program(name: str, plant: str | None) -> list[str]:
    return [sys.executable, "-m", "tests.soak.planted", plant, name] if plant in LEAKS else [str(_BIN / name)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
