"""Free memory and its shortage, as the files of a kernel say them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

import pytest

from engine.runtime import checkpoint_memory
from engine.runtime.checkpoint_memory import TOO_MANY, CheckpointMemory, Member, free_memory, has_few_ids, is_short

GB = 1 << 30
MEMINFO = "MemTotal: {} kB\nMemFree: 1 kB\nMemAvailable: {} kB\n"
PRESSURE = "some avg10={} avg60=99.00 avg300=99.00 total=5\nfull avg10=99.00 avg60=0.00 avg300=0.00 total=5\n"


def system(tmp_path: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def meminfo(total: int, free: int) -> dict[str, str]:
    return {"proc/meminfo": MEMINFO.format(total // 1024, free // 1024)}


def group(path: str, *, limit: str, used: int, inactive: int = 0, pressure: str = "0.00") -> dict[str, str]:
    folder = f"sys/fs/cgroup/{path}"
    return {
        f"{folder}/memory.max": f"{limit}\n",
        f"{folder}/memory.current": f"{used}\n",
        f"{folder}/memory.stat": f"anon 5\ninactive_file {inactive}\n",
        f"{folder}/memory.pressure": PRESSURE.format(pressure),
    }


OWN = {"proc/self/cgroup": "1:name=systemd:/x\n0::/a/b\n"}
NO_PRESSURE = {"proc/pressure/memory": PRESSURE.format("0.00")}


def test_free_memory_is_that_of_the_system(tmp_path: Path) -> None:
    root = system(tmp_path, {**meminfo(16 * GB, 9 * GB), **NO_PRESSURE})
    assert (free_memory(root), is_short(root)) == (9 * GB, False)


def test_free_memory_is_limited_by_each_group(tmp_path: Path) -> None:
    own = group("a/b", limit="max", used=3 * GB)
    above = group("a", limit=str(4 * GB), used=3 * GB, inactive=GB // 2)
    root = system(tmp_path, {**meminfo(16 * GB, 9 * GB), **OWN, **own, **above})
    assert (free_memory(root), is_short(root)) == (3 * GB // 2, False)


@pytest.mark.parametrize(
    "files",
    [
        meminfo(16 * GB, GB // 2),
        {**meminfo(16 * GB, 9 * GB), "proc/pressure/memory": PRESSURE.format("12.50")},
        {**meminfo(16 * GB, 9 * GB), **OWN, **group("a", limit=str(4 * GB), used=4 * GB)},
        {**meminfo(16 * GB, 9 * GB), **OWN, **group("a/b", limit="max", used=GB, pressure="40.00")},
    ],
    ids=["little is free", "processes wait", "little is free in a group", "processes of a group wait"],
)
def test_memory_is_short(tmp_path: Path, files: Mapping[str, str]) -> None:
    assert is_short(system(tmp_path, files))


@pytest.mark.parametrize(("limit", "used", "few"), [("100", 51, True), ("100", 50, False), ("max", 5000, False)])
def test_groups_limit_processes(tmp_path: Path, limit: str, used: int, few: bool) -> None:
    files = {"sys/fs/cgroup/a/pids.max": f"{limit}\n", "sys/fs/cgroup/a/pids.current": f"{used}\n"}
    assert has_few_ids(system(tmp_path, {**OWN, **files})) is few


class Holder:
    """Checkpoints without processes."""

    worker = None

    def __init__(self, *worths: float) -> None:
        self.kept = [Member(pid=next(_pids), worth=worth) for worth in worths]
        self.reasons: list[str] = []

    def members(self) -> Sequence[Member]:
        return list(self.kept)

    def drop_member(self, pid: int, reason: str) -> None:
        self.kept = [each for each in self.kept if each.pid != pid]
        self.reasons.append(reason)


_pids = count(1 << 30)


async def test_least_worth_checkpoints_of_all_sessions_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_memory, "MOST_OF_ALL", 3)
    memory, one, other = CheckpointMemory(), Holder(1.0, 5.0, 4.0), Holder(2.0, 3.0)
    for each in (one, other, one):
        memory.join(each)
    await memory.fit()
    assert [[each.worth for each in holder.kept] for holder in (one, other)] == [[5.0, 4.0], [3.0]]
    assert one.reasons == other.reasons == [TOO_MANY]


def test_unknown_memory_is_not_short(tmp_path: Path) -> None:
    assert (free_memory(tmp_path), is_short(tmp_path)) == (None, False)
    root = system(tmp_path, {"proc/meminfo": "nonsense", "proc/pressure/memory": "some avg10=?", **OWN})
    assert (free_memory(root), is_short(root)) == (None, False)
