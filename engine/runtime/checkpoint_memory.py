"""What all checkpoints of a host may take, and when they must give it back: memory, and process ids.

A checkpoint shares memory with its worker until one of them writes. So all of one session together take what they and
their worker hold, less what the worker holds anyway. A page that several processes share counts in each by its share
(PSS), so that sum is nearly exact.

A checkpoint may come to hold as much as its worker does now. So none is taken of a worker that holds more than
`SHARE` of the free memory. While there are checkpoints, `CheckpointMemory` looks at them and at the system once a
second. Above the limit, the one that is worth least for its memory is dropped. If the system is short of memory, all
are. If the kernel runs out of memory faster than that, it kills a checkpoint first (`expose`).

Must not know what a checkpoint contains. `Host` makes one for all its sessions; `worker_environment` asks it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Final, Protocol

import anyio
import anyio.to_thread
from msgspec import Struct

from .worker.processes.memory import bound_of, parts_of

LIMIT: Final = 2 << 30
"""Bytes that all checkpoints of a host may take, unless a setting says otherwise."""
SHARE: Final = 0.5
"""The largest part of the free memory that a worker may hold when a checkpoint is taken."""
MOST_OF_ALL: Final = 64
"""The most checkpoints of a host."""
LOOK_SECONDS: Final = 1.0
"""Between two looks."""
_LOOKS_SHARE: Final = 50
"""The shortest wait before the next look, as a multiple of the time of the last one."""
LEAST_FREE: Final = 0.05
"""The system is short if less than this part of its memory is free."""
MOST_PRESSURE: Final = 10.0
"""The system is short if processes waited for memory in more than this percentage of the last ten seconds."""
_SLIGHT: Final = 1 << 20
"""Bytes that are added to the memory of each checkpoint when their worth is compared: those of the process itself."""
_FIRST_TO_GO: Final = "1000"
"""The kernel kills a process with this `oom_score_adj` before all others."""
TOO_LARGE: Final = "the checkpoints together used too much memory"
SHORT: Final = "the system was short of memory"
TOO_MANY: Final = "the memory went to more valuable checkpoints of other sessions"
NO_IDS: Final = "more than half of the processes that the control group allows are running"
NO_ROOM: Final = "the variables use more than half of the free memory"
_KIB: Final = 1024
_SYSTEM: Final = Path("/")


class Member(Struct, frozen=True):
    """One checkpoint of a session: its process, and the seconds that its loss may cost, divided by its age."""

    pid: int
    worth: float


class CheckpointHolder(Protocol):
    """The checkpoints of one session."""

    def members(self) -> Sequence[Member]:
        """Those that exist."""
        ...

    @property
    def worker(self) -> int | None:
        """The process id of the session's worker."""
        ...

    def drop_member(self, pid: int, reason: str) -> None:
        """Drop the checkpoint with that process id, if it is still there."""
        ...


class CheckpointMemory:
    """Bounds what the checkpoints of a host take. `limit` is in bytes."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._holders: list[CheckpointHolder] = []
        self._next_look = 0.0
        self._is_looking = False

    def join(self, holder: CheckpointHolder) -> None:
        """Count the checkpoints of a session, until `leave`."""
        if holder not in self._holders:
            self._holders.append(holder)

    def leave(self, holder: CheckpointHolder) -> None:
        """Count them no more. May be repeated."""
        if holder in self._holders:
            self._holders.remove(holder)

    def hindrance(self, worker: int) -> str:
        """Why no checkpoint of that process may be taken now, as a phrase; empty if it may."""
        free = free_memory()
        if free is not None and bound_of(worker) > SHARE * free:
            return NO_ROOM
        if has_few_ids():
            return NO_IDS
        return SHORT if is_short() else ""

    async def fit(self) -> None:
        """Drop what is too much, unless the last look was a moment ago."""
        if self._is_looking or time.monotonic() < self._next_look:
            return
        self._is_looking, started = True, time.monotonic()
        try:
            if is_short():
                self._drop_all()
            else:
                await self._drop_surplus()
        finally:
            took = time.monotonic() - started
            self._is_looking, self._next_look = False, started + max(LOOK_SECONDS / 2, _LOOKS_SHARE * took)

    def _drop_all(self) -> None:
        for holder in tuple(self._holders):
            for member in holder.members():
                holder.drop_member(member.pid, SHORT)

    async def _drop_surplus(self) -> None:
        while True:
            found = {holder: holder.members() for holder in self._holders}
            if sum(map(len, found.values())) > MOST_OF_ALL:
                _, pid, holder = min(
                    ((each.worth, each.pid, holder) for holder, members in found.items() for each in members),
                    key=itemgetter(0, 1),
                )
                holder.drop_member(pid, TOO_MANY)
                continue
            if sum(bound_of(member.pid) for members in found.values() for member in members) <= self._limit:
                return  # as nearly always, and known without walking through the pages
            measured = await anyio.to_thread.run_sync(_measure, found)
            if sum(taken.total for taken in measured.values()) <= self._limit:
                return
            _, pid, holder = min(
                (
                    (member.worth / (taken.alone[member.pid] + _SLIGHT), member.pid, holder)
                    for holder, taken in measured.items()
                    for member in found[holder]
                ),
                key=itemgetter(0, 1),
            )
            holder.drop_member(pid, TOO_LARGE)


class _Taken(Struct, frozen=True):
    """The bytes that the checkpoints of a session take beside its worker, and those of each alone, by process id."""

    total: int
    alone: dict[int, int]

    @classmethod
    def of(cls, worker: int | None, members: Sequence[Member]) -> _Taken:
        alone, total = dict[int, int](), 0
        for member in members:
            share, alone[member.pid] = parts_of(member.pid)
            total += share
        if worker is not None:
            total += parts_of(worker)[0] - bound_of(worker)
        # The first is too little by what the worker shares with its parent, up to 50 MB.
        return cls(max(total, sum(alone.values())), alone)


def _measure(found: Mapping[CheckpointHolder, Sequence[Member]]) -> Mapping[CheckpointHolder, _Taken]:
    return {holder: _Taken.of(holder.worker, members) for holder, members in found.items()}


def expose(pid: int | None) -> None:
    """Let the kernel kill a checkpoint before other processes when it runs out of memory."""
    _set_score(pid, _FIRST_TO_GO)


def protect(pid: int | None) -> None:
    """Undo that, for what is forked from now on."""
    _set_score(pid, _text(Path("/proc/self/oom_score_adj")))


def _set_score(pid: int | None, score: str) -> None:
    with suppress(OSError):  # because the process may have ended
        Path(f"/proc/{pid}/oom_score_adj").write_text(score)


# --- the memory of the system -----------------------------------------------------------------------------------------


def free_memory(root: Path = _SYSTEM) -> int | None:
    """The bytes that are free for new memory, in this system and in the groups of this process; None if unknown."""
    found = [room for room, _ in _rooms(root)]
    return min(found, default=None)


def is_short(root: Path = _SYSTEM) -> bool:
    """Whether the system, or a group of this process, has little free memory, or its processes wait for memory."""
    if any(room < LEAST_FREE * total for room, total in _rooms(root)):
        return True
    files = [root / "proc/pressure/memory", *(group / "memory.pressure" for group in _groups(root))]
    return any(_pressure(_text(file)) > MOST_PRESSURE for file in files)


def has_few_ids(root: Path = _SYSTEM) -> bool:
    """Whether a group of this process has more than half of the processes and threads that it may have."""
    for group in _groups(root):
        with suppress(ValueError):  # "max", or it cannot be read
            if int(_text(group / "pids.current")) > int(_text(group / "pids.max")) / 2:
                return True
    return False


def _rooms(root: Path) -> list[tuple[int, int]]:
    """The free and the whole memory, in bytes: of the system, and of each group with a limit."""
    system = _numbers(_text(root / "proc/meminfo"))
    rooms = list[tuple[int, int]]()
    if "MemAvailable:" in system and "MemTotal:" in system:
        rooms.append((system["MemAvailable:"] * _KIB, system["MemTotal:"] * _KIB))
    for group in _groups(root):
        with suppress(ValueError):  # "max", or it cannot be read
            limit, used = int(_text(group / "memory.max")), int(_text(group / "memory.current"))
            # The kernel frees these pages of files when it needs memory.
            unneeded = _numbers(_text(group / "memory.stat")).get("inactive_file", 0)
            rooms.append((max(limit - used + unneeded, 0), limit))
    return rooms


def _groups(root: Path) -> list[Path]:
    """The control groups (version 2) of this process, from the root's down to its own."""
    path = re.search(r"^0::/(.*)$", _text(root / "proc/self/cgroup"), re.MULTILINE)
    if path is None:
        return []
    own = root / "sys/fs/cgroup" / path[1]
    top = root / "sys/fs/cgroup"
    return [group for group in (*reversed(own.parents), own) if group.is_relative_to(top)]


def _pressure(text: str) -> float:
    found = re.search(r"^some avg10=([\d.]+)", text, re.MULTILINE)
    return 0.0 if found is None else float(found[1])


def _numbers(text: str) -> dict[str, int]:
    """The first number of each line, by its first word."""
    fields = (line.split() for line in text.splitlines())
    return {field[0]: int(field[1]) for field in fields if len(field) > 1 and field[1].isdigit()}


def _text(path: Path) -> str:
    try:
        with open(path, "rb", buffering=0) as file:
            return os.read(file.fileno(), 1 << 16).decode(errors="replace")
    except OSError:
        return ""
