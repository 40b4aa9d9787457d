"""What is done to the programs during an act: kills, stops, failed operations of the disk, and a broken client.

Each fault performs one act of the story, breaks something at a drawn moment of it, brings the session back to rest, and
returns what is wrong then. A moment is a disk operation, because a kill at random times mostly hits a program that
waits.
"""

from __future__ import annotations

import contextlib
import errno
import json
import signal
import time
from collections.abc import Callable, Sequence
from typing import Final, Literal

import psutil

from tests.faults.filesystem import Fault
from tests.faults.remote import RemoteWorld
from tests.faults.story import next_hit
from tests.faults.world import MARKS, SECONDS, Act, Done, World
from tests.support.agents import NoAnswerError
from tests.support.scripts import family

TARGETS: Final = ("host", "worker", "zygote", "keeper", "one", "all")
ERRORS: Final = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EACCES, errno.EINTR)
_MOST_OPERATIONS: Final = 260
"""A little more than most acts have, so that some faults come after the act, or never."""
_SLOW_SECONDS: Final = 1.5
_STOPPED_SECONDS: Final = 0.5
_NOTICED_SECONDS: Final = 0.3
"""So long a host has after the act to notice that its worker was killed, because the next act must succeed."""


def _chosen(
    world: World, target: str, host: psutil.Process, everybody: Sequence[psutil.Process]
) -> list[psutil.Process]:
    zygotes = [each for each in everybody if each.ppid() == host.pid]
    below = [each for each in everybody if each not in zygotes]
    keepers = [each for each in below if any(other.ppid() == each.pid for other in below)]
    match target:
        case "host":
            return [host]
        case "worker":
            return [each for each in below if each not in keepers]
        case "zygote":
            return zygotes
        case "keeper":
            return keepers or below[:1]
        case "one":
            return world.chance.sample([host, *everybody], 1)
        case _:
            return [host, *everybody]


def _signalled(world: World, number: signal.Signals, target: str) -> tuple[list[psutil.Process], bool]:
    """Send the signal to the target. Returns the whole family, and whether the host was among the targets."""
    host = psutil.Process(world.agent.process.pid)
    everybody = family(host)
    with contextlib.suppress(psutil.NoSuchProcess):
        chosen = _chosen(world, target, host, everybody)
        for process in chosen:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        return everybody, host in chosen
    return everybody, False


def _until_moment(world: World, request: int, fault: Fault) -> bool:
    """Read messages until the announced operation comes, or the response; returns whether the operation came."""
    assert world.disk is not None
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if world.disk.reached(0.005):
            return True
        with contextlib.suppress(NoAnswerError):
            message = world.agent.next(0.001)
            if message is None or ("method" not in message and message.get("id") == request):
                return False
    return False


def kill_at(world: World, act: Act, target: str, n: int) -> list[str]:
    """SIGKILL of the target at the n-th operation of the disk during the act."""
    states = world.states(act)
    request, everybody, hits_host = _hit(world, act, signal.SIGKILL, target, n)
    world.counts.kills += 1
    return _after(world, act, states, request, everybody if hits_host else None)


def _hit(world: World, act: Act, number: signal.Signals, target: str, n: int) -> tuple[int, list[psutil.Process], bool]:
    """Start the act, and send the signal at the n-th operation, or at the end of the act."""
    assert world.disk is not None
    fault = Fault("announce", n)
    world.disk.arm(fault)
    request = world.start(act)
    came = _until_moment(world, request, fault)
    everybody, hits_host = _signalled(world, number, target)
    if came:
        world.disk.go()
    world.disk.arm(None)
    return request, everybody, hits_host


def kill(world: World) -> list[str]:
    """SIGKILL of one, some or all processes at an operation of the disk, or at any time."""
    act, target = next_hit(world), world.chance.choice(TARGETS)
    if world.chance.random() < 0.7:
        return kill_at(world, act, target, world.chance.randint(1, _MOST_OPERATIONS))
    states = world.states(act)
    request = world.start(act)
    deadline = time.monotonic() + world.chance.uniform(0, 0.25)
    with contextlib.suppress(NoAnswerError):
        while (left := deadline - time.monotonic()) > 0 and world.agent.next(left):
            pass
    everybody, hits_host = _signalled(world, signal.SIGKILL, target)
    world.counts.kills += 1
    return _after(world, act, states, request, everybody if hits_host else None)


def stop(world: World) -> list[str]:
    """SIGSTOP of some processes for a while, then SIGCONT; or SIGKILL of the host while others are stopped."""
    act, target = next_hit(world), world.chance.choice(TARGETS[1:4])
    n, kills = world.chance.randint(1, _MOST_OPERATIONS // 2), world.chance.random() < 0.3
    return stop_at(world, act, target, n, kills=kills)


def stop_at(world: World, act: Act, target: str, n: int, *, kills: bool) -> list[str]:
    """SIGSTOP of the target at the n-th operation of the disk; `kills` is whether the host is then killed."""
    states = world.states(act)
    request, everybody, hits_host = _hit(world, act, signal.SIGSTOP, target, n)
    world.counts.stops += 1
    if kills:
        world.counts.kills += 1
        _signalled(world, signal.SIGKILL, "host")
    else:
        time.sleep(_STOPPED_SECONDS)  # because a program that waits for a stopped one tells nobody
    for process in everybody:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGCONT)
    return _after(world, act, states, request, everybody if kills or hits_host else None)


def fail(world: World) -> list[str]:
    """One operation of the disk, or all from some moment on, fail during an act."""
    act = next_hit(world)
    below = world.chance.choice(("", "/state/sessions.db", "/project", "/state"))
    does = world.chance.choice(("fail", "fail", "fail", "short", "slow"))
    times = world.chance.choice((1, 1, 1, 1 << 30)) if does == "fail" else 1
    number, n = world.chance.choice(ERRORS), world.chance.randint(1, _MOST_OPERATIONS if not below else 40)
    if number == errno.EINTR:
        times = 1  # because a program that is interrupted tries again
    return fail_at(world, act, Fault(does, n, number=number, below=below, times=times, seconds=_SLOW_SECONDS))


def fail_at(world: World, act: Act, fault: Fault) -> list[str]:
    """Perform the act with that fault of the disk."""
    assert world.disk is not None
    states = world.states(act)
    world.disk.arm(fault)
    request = world.start(act)
    done = world.wait(request)
    world.counts.failed_operations += world.disk.came()
    world.may_be_swept = True
    world.disk.arm(None)
    return [*_settled(world, act, states, done), *world.recover()]


def cancel(world: World) -> list[str]:
    """The client cancels at an operation of the disk."""
    act = next_hit(world)
    states = world.states(act)
    fault = Fault("announce", world.chance.randint(1, _MOST_OPERATIONS))
    assert world.disk is not None
    world.disk.arm(fault)
    request = world.start(act)
    came = _until_moment(world, request, fault)
    world.agent.notify("session/cancel", {"sessionId": world.session})
    if came:
        world.disk.go()
    world.disk.arm(None)
    world.counts.wire += 1
    return _after(world, act, states, request, None)


# --- other programs with the same state ------------------------------------------------------------------------------


def kill_beside(world: World) -> list[str]:
    """A kill, while another agent works with the same state: that one must not notice."""
    session, agent = world.another()
    mark = str(world.number())
    world.acts[mark] = (0, 1)
    request = agent.begin_prompt(session, f'b = bash("echo {mark} >> {MARKS}")')
    wrong = kill(world)
    response = agent.response(request, SECONDS)
    if response.get("result", {}).get("stopReason") != "end_turn":
        return [*wrong, f"alive: a turn beside a kill ended with {response}"]
    world.acts[mark] = (1, 1)
    return wrong


def copy(world: World) -> list[str]:
    """Export the session, import the copy and collect garbage, of which one is killed: all or nothing is there."""
    number = world.number()
    file, name = world.base / f"export{number}.jsonl", f"copy{number}"
    steps: tuple[tuple[tuple[str, ...], Callable[[], bool]], ...] = (
        (("export", world.session, "--output", str(file)), file.exists),
        (("import", str(file), "--as", name), lambda: name in world.logs()[1]),
        (("gc", "--older-than", "30d"), lambda: False),
    )
    hit = world.chance.choice(steps)
    for step in steps:
        arguments, is_done = step
        if step is hit:
            world.counts.kills += world.program(*arguments, patience=world.chance.uniform(0.2, 1.5)) is None
        if not is_done() and world.program(*arguments) != 0:
            return [f"alive: {arguments} failed: {world.errors[-1]!r}"]
    again = file.with_suffix(".again")
    world.program("export", world.session, "--output", str(again))
    if (found := file.read_bytes()) != (whole := again.read_bytes()):
        return [f"files: the export has {len(found)} bytes, and must have {len(whole)}"]
    world.errors.append(found)  # a place where secrets must not be
    world.keep(name)
    return world.look_at_others()


# --- a database that fails ------------------------------------------------------------------------------------------


def drop_connections(world: World) -> list[str]:
    """The database ends all connections during an act."""
    return _database_fault(world, "drop")


def crash_database(world: World) -> list[str]:
    """The server crashes during an act, and is started again."""
    return _database_fault(world, "crash")


def _database_fault(world: World, does: Literal["drop", "crash"]) -> list[str]:
    assert isinstance(world, RemoteWorld)
    act = next_hit(world)
    states = world.states(act)
    request = world.start(act)
    with contextlib.suppress(NoAnswerError):
        for _ in range(world.chance.randrange(6)):
            world.agent.next(world.chance.uniform(0.001, 0.1))
    world.drop() if does == "drop" else world.crash()
    world.counts.database += 1
    return _after(world, act, states, request, None)


# --- a broken client --------------------------------------------------------------------------------------------------


def _line(world: World, text: str, request: int) -> bytes:
    params = {"sessionId": world.session, "prompt": [{"type": "text", "text": text}]}
    return json.dumps({"jsonrpc": "2.0", "id": request, "method": "session/prompt", "params": params}).encode() + b"\n"


def _half(world: World, request: int) -> None:
    """The client leaves in the middle of a line."""
    world.agent.write(_line(world, "never = 1", 900_000 + request)[:-9])


def _close(world: World, request: int) -> None:
    """The client leaves during the turn."""
    assert world.agent.process.stdin
    world.agent.process.stdin.close()


def _garbage(world: World, request: int) -> None:
    world.agent.write(b'\xff\xfe{"jsonrpc": 3}\n[]\n7\nnull\n{}\n' + b"x" * 70_000 + b"\n")


def _flood(world: World, request: int) -> None:
    """Thousands of notifications and unknown requests."""
    unknown = b'{"jsonrpc":"2.0","id":"f%d.%d","method":"session/nothing","params":{}}\n'
    world.agent.write(b"".join(unknown % (request, number) for number in range(500)))
    world.agent.write(b'{"jsonrpc":"2.0","method":"$/nothing","params":{}}\n' * 3000)


def _silent(world: World, request: int) -> None:
    """The client reads nothing for a while."""
    world.agent.read_ahead(1)
    time.sleep(_STOPPED_SECONDS)
    world.agent.read_ahead()


def _twice(world: World, request: int) -> None:
    """The same answers twice, to questions that nobody asked."""
    world.agent.write(b'{"jsonrpc":"2.0","id":77,"result":{"outcome":{"outcome":"cancelled"}}}\n' * 2)


CLIENT: Final[tuple[tuple[Callable[[World, int], None], bool], ...]] = (
    (_half, True),
    (_close, True),
    (_garbage, False),
    (_flood, False),
    (_silent, False),
    (_twice, False),
)
"""Each with whether the client has left."""


def break_wire(world: World) -> list[str]:
    """The client misbehaves during an act."""
    does, leaves = world.chance.choice(CLIENT)
    act = next_hit(world)
    return break_at(world, act, does, leaves=leaves, messages=1, patience=world.chance.uniform(0.001, 0.1))


def break_at(
    world: World, act: Act, does: Callable[[World, int], None], *, leaves: bool, messages: int, patience: float
) -> list[str]:
    """The client misbehaves when it has received so many messages, or when none comes for so many seconds."""
    states = world.states(act)
    request = world.start(act)
    with contextlib.suppress(NoAnswerError):
        for _ in range(messages):
            message = world.agent.next(patience)
            if message is None or _answers(message, request):
                break
    with contextlib.suppress(BrokenPipeError):
        does(world, request)
    world.counts.wire += 1
    if leaves:
        everybody = family(psutil.Process(world.agent.process.pid))
        return _after(world, act, states, request, everybody)
    return _after(world, act, states, request, None)


# --- afterwards -------------------------------------------------------------------------------------------------------


def _after(
    world: World,
    act: Act,
    states: Sequence[dict[str, bytes]],
    request: int,
    family_of_host: Sequence[psutil.Process] | None,
) -> list[str]:
    """Bring the session to rest after a signal; a family is given if the host has to be started again."""
    if family_of_host is None and world.agent.process.poll() is None:
        response = next((each for each in world.agent.received if _answers(each, request)), None)
        done = world.wait(request) if response is None else world.done(response)
        time.sleep(_NOTICED_SECONDS)
        return _settled(world, act, states, done)
    response = next((each for each in world.agent.received if _answers(each, request)), None)
    wrong = world.end(family_of_host or (), is_orderly=False)
    response = response or next((each for each in world.agent.received if _answers(each, request)), None)
    if response is not None:
        world.done(response)
    return [*wrong, *world.restart(), *world.settle(act, states, is_certain=False)]


def _answers(message: dict[str, object], request: int) -> bool:
    return "method" not in message and message.get("id") == request


def _settled(world: World, act: Act, states: Sequence[dict[str, bytes]], done: Done) -> list[str]:
    """Open the session again if the agent gave an error, or no answer, because it may not be able to go on."""
    if done.reason is not None:
        return world.settle(act, states, is_certain=False)
    if world.reopens and done.error is not None and world.agent.process.poll() is None:
        return [*world.reopen(), *world.settle(act, states, is_certain=False)]
    wrong = (
        []
        if done.error is not None or world.agent.process.poll() is not None
        else [f"alive: no answer to {act.text!r:.60}"]
    )
    return [*wrong, *world.end(), *world.restart(), *world.settle(act, states, is_certain=False)]


FAULTS: Final[tuple[tuple[int, Callable[[World], list[str]]], ...]] = (
    (10, kill),
    (2, stop),
    (8, fail),
    (2, cancel),
    (4, break_wire),
    (2, kill_beside),
    (1, copy),
)
"""Each with its weight."""


def next_fault(world: World) -> tuple[str, list[str]]:
    """Draw a fault, and let it come. Returns its name and what is wrong afterwards."""
    able = [each for each in FAULTS if world.has_commands or each[1] in (kill, stop, fail)]
    if isinstance(world, RemoteWorld):
        able += [(4, drop_connections), (3, crash_database)]
    weights, faults = zip(*able, strict=True)
    (fault,) = world.chance.choices(faults, weights)
    return fault.__name__, fault(world)
