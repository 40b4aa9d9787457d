"""`python -m tests.faults.sweep --kind KIND --count N`: faults spread evenly over the points of a fixed scenario.

The scenario has one act of each kind. It runs once without faults, and its operations of the disk are counted. Then the
faults are spread over the operations of each act, or over the messages that a client receives. The session goes on
after each fault, so a fault costs a fraction of a second, and a kill of the agent little more than its next start. The
judge, the world and the faults are those of the random episodes. The files of each act are new: what one fault leaves
uncertain hides nothing of the next one.

A round is some faults in one world; rounds of one seed are the same, apart from when processes get there.
"""

from __future__ import annotations

import argparse
import errno
import json
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Final, Literal

from tests.faults import peers, story
from tests.faults.breaking import CLIENT, ERRORS, TARGETS, break_at, fail_at, kill_at, stop_at
from tests.faults.disk import PROFILES
from tests.faults.episode import Result
from tests.faults.filesystem import Fault, why_not
from tests.faults.power import Loss, Recording, lose_power
from tests.faults.world import Act, Counts, World, line, opened

Kind = Literal["disk", "files", "kill", "peers", "power", "wire"]
_KINDS: Final[tuple[Kind, ...]] = ("power", "kill", "disk", "files", "wire", "peers")
"""In the order in which rounds of all kinds are played."""
_A_ROUND: Final[Mapping[Kind, int]] = {"power": 200, "kill": 12, "disk": 24, "files": 8, "wire": 16, "peers": 16}
"""How many points a world has."""
_RESTARTS_EVERY: Final = 30
"""On one of so many disks after a power loss the agent is started."""
_MANY: Final = 8
"""Files that one statement writes while operations below their directory fail."""
_ORDINARY_EVERY: Final = 3
_OFTEN: Final = ("rewind", "rewind", "two")
"""Acts that change several files; they are hit more often than others."""
_NEEDS_FILE: Final = ("over", "two", "own", "remove", "undo")
_MOST_MESSAGES: Final = 12
"""A client receives a little fewer in most acts."""
_SLOW_SECONDS: Final = 0.3
_PEERS_SECONDS: Final = 1800.0
"""More than a round of peers takes on a busy machine."""


# --- the scenario -----------------------------------------------------------------------------------------------------


def _new(world: World, _latest: str) -> Act:
    """A tool writes a file in a new directory."""
    number = world.number()
    path = f"n{number}/new.txt"
    return Act(story.written(path, number, 30), steps=({path: story.content(number, 30)},))


def _over(world: World, latest: str) -> Act:
    """A tool overwrites the latest file, and edits it."""
    number, path = world.number(), latest
    source = f"{story.seen(path)}{story.written(path, number, 900)}\nw = edit({path!r}, '{number}.7\\n', 'seven\\n')"
    first = story.content(number, 900)
    second = first.replace(b"\n%d.7\n" % number, b"\nseven\n")
    return Act(source, steps=({path: first}, {path: second}))


def _two(world: World, latest: str) -> Act:
    number, first = world.number(), latest
    second = f"b{number}.txt"
    source = f"{story.seen(first)}{story.written(first, number, 3)}\n{story.written(second, number, 30)}"
    return Act(source, steps=({first: story.content(number, 3)}, {second: story.content(number, 30)}))


def _own(world: World, latest: str) -> Act:
    """The statement's own code writes a file."""
    number, path = world.number(), latest
    source = f"with open({path!r}, 'w') as f: n = f.write({story.expression(number, 300)})"
    return Act(source, steps=({path: story.content(number, 300)},))


def _remove(_world: World, latest: str) -> Act:
    """The statement's own code removes a file, which nobody syncs."""
    return Act(f"import os; os.remove({latest!r})", steps=({latest: None},), soft=True)


def _command(world: World, _latest: str) -> Act:
    number = world.number()
    path = f"c{number}.txt"
    return Act(f'b = bash("echo {number} > {path}")', steps=({path: b"%d\n" % number},), soft=True)


def _rewind(world: World, _latest: str) -> Act:
    """To an earlier statement, so that several files go back."""
    target = max(0, len(world.expected.after) - 4)
    return Act(f"/rewind {target}", "rewind", target=target)


def _edit(world: World, _latest: str) -> Act:
    """Another statement in place of the last one, which has changed nothing."""
    number, last = world.number(), len(world.expected.after) - 1
    path = f"e{number}.txt"
    source = f"/edit {last} --live\n{story.written(path, number, 30)}"
    return Act(source, "edit", steps=({path: story.content(number, 30)},))


SCENARIO: Final[Mapping[str, Callable[[World, str], Act]]] = {
    "new": _new,
    "over": _over,
    "two": _two,
    "own": _own,
    "remove": _remove,
    "command": _command,
    "mark": lambda world, _: story.mark(world),
    "secret": lambda world, _: story.secret(world),
    "rewind": _rewind,
    "undo": lambda world, _: story.undo(world),
    "edit": _edit,
    "fork": lambda world, _: story.fork(world),
    "mode": lambda world, _: story.mode(world),
}


@dataclass(frozen=True)
class Point:
    """One fault: which act it hits, what happens, and how far the act has come, from 0 to 1."""

    act: str
    what: str
    progress: float


_WHAT: Final[Mapping[Kind, Sequence[str]]] = {
    "files": tuple(f"fail {errno.errorcode[each]}" for each in ERRORS),
    "peers": ("any",),
    "power": PROFILES,
    "disk": (*(f"fail {errno.errorcode[each]}" for each in ERRORS), "fail EIO", "fail ENOSPC", "short", "slow"),
    "kill": (*TARGETS, "host", "worker", "stop", "stop and kill"),
    "wire": tuple(does.__name__ for does, _ in CLIENT),
}


def points(kind: Kind, count: int, seed: int) -> list[Point]:
    """Points for so many faults: each act and each fault in turn, and evenly spread over the act."""
    chance = random.Random(seed)
    acts = (*SCENARIO, *_OFTEN) if kind in ("disk", "kill", "wire") else ("all",)
    pairs = [(act, what) for act in acts for what in _WHAT[kind]]
    chance.shuffle(pairs)
    rounds = -(-count // len(pairs))
    found = [Point(act, what, (number + chance.random()) / rounds) for act, what in pairs for number in range(rounds)]
    chance.shuffle(found)
    return found[:count]


@dataclass
class _Sweep:
    """Faults in one world, one after another."""

    world: World
    sizes: Mapping[str, int]
    """How many operations each act has without a fault."""
    result: Result
    latest: str = ""
    """The file that the latest ordinary act has written."""

    def ordinary(self) -> None:
        """An act that must succeed."""
        number = self.world.number()
        self.latest = f"p{number}.txt"
        self._wrong(
            self.world.perform(
                Act(story.written(self.latest, number, 30), steps=({self.latest: story.content(number, 30)},))
            )
        )

    def act(self, name: str) -> Act:
        if name == "edit":  # it takes the place of a statement that has changed nothing
            self._wrong(self.world.perform(story.bind(self.world)))
        return SCENARIO[name](self.world, self.latest)

    def measure(self) -> dict[str, int]:
        """Perform each act without a fault; returns how many operations it had. Raises AssertionError if one fails."""
        sizes: dict[str, int] = {}
        for name in SCENARIO:
            self.ordinary()
            act, before = self.act(name), self.world.operations
            self._wrong(self.world.perform(act))
            assert not self.result.wrong, self.result.wrong
            sizes[name] = self.world.operations - before
        return sizes

    def hit(self, point: Point) -> None:
        """Perform the act with its fault."""
        if point.act in _NEEDS_FILE or len(self.result.steps) % _ORDINARY_EVERY == 0:
            self.ordinary()
        if self.result.wrong:
            return
        act = self.act(point.act)
        n = 1 + int(point.progress * self.sizes[point.act])
        self.result.steps.append(f"{point.act} with {point.what} at {n}: {act.text!r}")
        self.result.kinds[f"{point.act} / {point.what}"] += 1
        self._wrong(self._fault(act, point, n))

    def _fault(self, act: Act, point: Point, n: int) -> list[str]:
        what, world = point.what, self.world
        match what.split():
            case ["fail", name]:
                return fail_at(world, act, Fault("fail", n, number=getattr(errno, name)))
            case ["short"]:
                # Of the writes alone, which are about a half of all operations.
                return fail_at(world, act, Fault("short", 1 + n // 2))
            case ["slow"]:
                return fail_at(world, act, Fault("slow", n, seconds=_SLOW_SECONDS))
            case ["stop", *then]:
                return stop_at(world, act, world.chance.choice(TARGETS[1:4]), n, kills=bool(then))
            case [target] if target in TARGETS:
                return kill_at(world, act, target, n)
            case _:
                does, leaves = next(each for each in CLIENT if each[0].__name__ == what)
                messages = int(point.progress * _MOST_MESSAGES)
                return break_at(world, act, does, leaves=leaves, messages=messages, patience=2.0)

    def hit_many(self, point: Point) -> None:
        """A statement writes files one by one, and every few operations of the disk below their directory fail.

        A write that was confirmed must be there, whole. Of one that failed, nothing may be there.
        """
        world, number = self.world, self.world.number()
        contents = {f"m{number}/{place}.txt": story.content(number + place, 900) for place in range(_MANY)}
        self.result.steps.append(f"many with {point.what} at {point.progress:.2f}")
        self.result.kinds[f"many / {point.what}"] += 1
        lines = [
            f"try: {story.written(path, number + place, 900)}\nexcept OSError: pass"
            for place, path in enumerate(contents)
        ]
        act = Act("\n".join(lines), steps=tuple({path: data} for path, data in contents.items()))
        name, n = point.what.split()[1], 1 + int(point.progress * 20)
        every = world.chance.randint(5, 9)
        fault = Fault("fail", n, number=getattr(errno, name), times=1 << 30, every=every, below=f"/project/m{number}")
        assert world.disk is not None
        world.disk.arm(fault)
        done = world.wait(world.start(act))
        world.counts.failed_operations += world.disk.came()
        world.disk.arm(None)
        world.may_be_swept = True
        if done.reason != "end_turn":
            self._wrong([f"alive: a statement whose writes failed ended with {done}"])
            return
        confirmed = {
            path: data
            for path, data in contents.items()
            if any(str(event.get("text")).startswith(f"created {path}: ") for event in world.logs()[1][world.session])
        }
        self._wrong(world.settle(act, [{**world.expected.files, **confirmed}], is_certain=True))

    def _wrong(self, wrong: Sequence[str]) -> None:
        self.result.wrong += wrong


def sweep(
    folder: Path, kind: Kind, seed: int, sizes: Mapping[str, int], faults: Sequence[Point], keep: Path | None = None
) -> Result:
    """One round: a fault at each of the points. Stops at the first thing that is wrong, and keeps the evidence."""
    result, chance = Result(seed), random.Random(seed)
    with opened(folder, chance) as world:
        result.counts, world.reopens = world.counts, True
        world.loads = chance.choice((1, 1, 2))
        try:
            one = _Sweep(world, sizes, result)
            for point in faults:
                one.hit_many(point) if kind == "files" else one.hit(point)
                if result.wrong:
                    break
            else:
                one.ordinary()
                result.wrong += [*world.end(), *world.last_look()]
        except Exception:  # whatever it is, the report needs the steps that led to it
            result.wrong.append(f"alive: {traceback.format_exc()}")
        if result.wrong and keep is not None:
            shutil.copytree(world.state, keep / str(seed), dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock"))
            lines = [f"{told.count} {json.dumps(told.message)}\n" for told in world.told]
            (keep / str(seed) / "messages").write_text("".join([*result.steps, "\n", *lines]))
    return result


def measured(folder: Path) -> dict[str, int]:
    """How many operations each act of the scenario has."""
    with opened(folder, random.Random(0)) as world:
        return _Sweep(world, {}, Result(0)).measure()


def lose(folder: Path, seed: int, faults: Sequence[Point]) -> Result:
    """One round of power losses: the scenario runs without faults, and the power fails at each of the points."""
    result, chance = Result(seed), random.Random(seed)
    with opened(folder, chance) as world:
        result.counts = world.counts
        _Sweep(world, {}, result).measure()
        result.wrong += [*world.end(), *world.last_look()]
        recording = Recording.of(world, folder / "operations")
    first = recording.moments[0].until
    for number, point in enumerate(faults):
        if result.wrong:
            break
        place = first + int(point.progress * (len(recording.operations) - first))
        loss = Loss(place, next(each for each in PROFILES if each == point.what), chance.randrange(1 << 30))
        restarts = number % _RESTARTS_EVERY == 0
        result.wrong += lose_power(recording, folder / "disk", loss, restarts=restarts)
        result.steps.append(str(loss))
        result.counts.power_losses += 1
        result.counts.restarts_after_power_loss += restarts
    return result


def _round(kind: Kind, seed: int, sizes: Mapping[str, int], faults: Sequence[Point], keep: Path | None) -> Result:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if kind == "peers":
            return peers.run(Path(folder), seed, _PEERS_SECONDS, len(faults))
        if kind == "power":
            return lose(Path(folder), seed, faults)
        return sweep(Path(folder), kind, seed, sizes, faults, keep)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.sweep", description=__doc__.partition("\n")[0])
    parser.add_argument("--kind", choices=(*_KINDS, "all"), default="all")
    parser.add_argument("--count", type=int, default=100, help="of points, for each kind")
    parser.add_argument("--seed", type=int, help="of the points; drawn without it")
    parser.add_argument("--jobs", type=int, default=2, help="rounds that run at a time")
    parser.add_argument("--round", type=int, help="only the round of this number")
    parser.add_argument("--first", action="store_true", help="stop at the first failure")
    parser.add_argument("--keep", type=Path, help="a directory for the state and the messages of failures")
    options = parser.parse_args()
    if reason := why_not():
        print(f"skipped: {reason}")
        return 0
    seed = random.SystemRandom().randrange(1 << 30) if options.seed is None else options.seed
    print(f"SEED={seed}", flush=True)
    return play(options, seed)


def play(options: argparse.Namespace, seed: int) -> int:
    """Play all rounds, or only one."""
    began, counts, played, failed = time.monotonic(), Counts(), 0, 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        sizes = measured(Path(folder))
    print(f"operations of each act: {sizes}", flush=True)
    rounds = rounds_of(_KINDS if options.kind == "all" else (options.kind,), options.count, seed)
    numbers = range(len(rounds)) if options.round is None else [options.round]
    with ProcessPoolExecutor(options.jobs) as pool:
        done = {
            pool.submit(_round, rounds[number][0], seed + number, sizes, rounds[number][1], options.keep): number
            for number in numbers
        }
        for each in as_completed(done):
            result, number = each.result(), done[each]
            counts.add(result.counts)
            played += 1
            what = f"round {number} ({rounds[number][0]}), {time.monotonic() - began:.0f} s"
            print(f"{what}: {line(vars(result.counts))}", flush=True)
            if result.wrong:
                failed += 1
                print(f"FAILED: --kind {options.kind} --count {options.count} --seed {seed} --round {number}")
                print(*(f"  after {step:.300}" for step in result.steps[-4:]), sep="\n")
                print(*(f"  {wrong[-2500:]}" for wrong in result.wrong[:10]), sep="\n", flush=True)
                if options.first:
                    pool.shutdown(cancel_futures=True)
                    break
    print(f"{line(vars(counts))}; {played} rounds, {failed} failed", flush=True)
    return 1 if failed else 0


def rounds_of(kinds: Sequence[Kind], count: int, seed: int) -> list[tuple[Kind, list[Point]]]:
    """Rounds with so many points of each kind, the kinds in turn."""
    rows = [
        [(kind, found[first : first + _A_ROUND[kind]]) for first in range(0, count, _A_ROUND[kind])]
        for kind in kinds
        for found in [points(kind, count, seed)]
    ]
    return [each for turn in zip_longest(*rows) for each in turn if each is not None]


if __name__ == "__main__":
    sys.exit(main())
