"""Programs on the file system of faults: what it keeps of them, and what it does to them."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.disk import PROFILES, Disk, after_power_loss
from tests.faults.filesystem import Fault, Mounted, mounted

SECONDS = 20.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Mounted]:
    place = tmp_path / "disk"
    place.mkdir()
    try:
        with mounted(place) as made:
            yield made
    except OSError as error:
        pytest.skip(f"no file system can be mounted here: {error}")


def begun(disk: Mounted, source: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", source], cwd=disk.place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def ran(disk: Mounted, source: str) -> str:
    with begun(disk, source) as process:
        return process.communicate(timeout=SECONDS)[0].strip()


def listed(folder: Path) -> dict[str, tuple[int, str]]:
    found: dict[str, tuple[int, str]] = {}
    for path in sorted(folder.rglob("*")):
        text = os.readlink(path) if path.is_symlink() else "" if path.is_dir() else path.read_text()
        found[str(path.relative_to(folder))] = (path.lstat().st_mode, text)
    return found


CHANGES = """
import os
os.makedirs("d/e"); open("d/a", "w").write("one" * 100_000); os.rename("d/a", "d/e/b"); os.link("d/e/b", "c")
os.symlink("c", "l"); os.chmod("d", 0o700); os.truncate("c", 5); open("c", "a").write("more"); os.unlink("l")
open("x", "w").write("x"); os.replace("x", "c"); os.mkdir("gone"); os.rmdir("gone"); os.symlink("c", "k")
"""


def test_operations_repeat_the_disk(disk: Mounted, tmp_path: Path) -> None:
    assert ran(disk, CHANGES) == ""
    again, saved = Disk(), tmp_path / "saved"
    operations = disk.record(tmp_path / "record")
    assert len(operations) == disk.count
    for operation in operations:
        again.apply(operation)
    saved.mkdir()
    again.save(saved)
    assert listed(saved) == listed(disk.place)
    assert listed(saved)["d/e/b"][1] == "oneonmore"


COMMITS = """
import sqlite3
database = sqlite3.connect("a.db", isolation_level=None)
database.execute("PRAGMA journal_mode=WAL"); database.execute("PRAGMA synchronous=FULL")
database.execute("CREATE TABLE t (n)")
for n in range(40):
    database.execute("INSERT INTO t VALUES (?)", (n,))
    print(n, flush=True)
"""


def test_commits_of_sqlite_survive_any_power_loss(disk: Mounted, tmp_path: Path) -> None:
    committed: list[int] = []
    with begun(disk, COMMITS) as process:
        assert process.stdout
        committed.extend(disk.count for _ in process.stdout)
    operations = disk.record(tmp_path / "record")
    for seed in range(80):
        end = committed[0] + seed * (len(operations) - committed[0]) // 80
        saved = tmp_path / f"saved{seed}"
        saved.mkdir()
        after_power_loss(operations[:end], PROFILES[seed % 4], seed).save(saved)
        with closing(sqlite3.connect(saved / "a.db")) as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            (rows,) = database.execute("SELECT count(*) FROM t").fetchone()
        assert rows >= sum(count <= end for count in committed)


def test_nth_operation_fails(disk: Mounted) -> None:
    disk.arm(Fault("fail", 2, ("make",), number=28))
    source = "for n in range(3):\n try: open(str(n), 'w').close()\n except OSError as e: print(n, e.errno)"
    assert ran(disk, source) == "1 28"
    assert disk.came() == 1
    assert sorted(os.listdir(disk.place)) == ["0", "2"]


def test_fault_is_limited_to_paths(disk: Mounted) -> None:
    disk.arm(Fault("fail", 1, ("make",), below="/b", times=9))
    source = "import os\nfor n in 'ab':\n try: os.mkdir(n)\n except OSError as e: print(n, e.errno)"
    assert ran(disk, source) == "b 5"


def test_write_is_short(disk: Mounted) -> None:
    disk.arm(Fault("short", 1))
    source = "import os; print(os.write(os.open('a', os.O_CREAT | os.O_WRONLY), b'12345678'))"
    assert ran(disk, source) == "4"
    assert (disk.place / "a").read_text() == "1234"


def test_slow_operation_blocks_only_its_program(disk: Mounted) -> None:
    disk.arm(Fault("slow", 1, ("fsync",), seconds=0.4))
    source = "import os, time; f = open('a', 'w'); t = time.monotonic(); os.fsync(f.fileno())"
    with begun(disk, source + "; print(time.monotonic() - t >= 0.4)") as process:
        (disk.place / "b").touch()
        assert process.communicate(timeout=SECONDS)[0].strip() == "True"


def test_program_is_killed_at_an_announced_operation(disk: Mounted) -> None:
    disk.arm(Fault("announce", 3, ("write",)))
    with begun(disk, "import os\nfor n in range(9): os.write(os.open('a', 65), str(n).encode())") as process:
        assert disk.reached(SECONDS) == ("write", "/a")
        process.send_signal(signal.SIGKILL)
        disk.go()
        process.wait(SECONDS)
    assert (disk.place / "a").read_text() == "2"


def test_announced_operation_is_not_held_for_ever(disk: Mounted) -> None:
    disk.arm(Fault("announce", 1, ("write",), held=0.2))
    with begun(disk, "import os; os.write(os.open('a', 65), b'1')") as process:
        assert disk.reached(SECONDS) == ("write", "/a")
        process.wait(SECONDS)
    disk.go()
    assert disk.came() == 1


def test_fault_comes_again_at_each_third_operation(disk: Mounted) -> None:
    disk.arm(Fault("fail", 2, ("write",), every=3, times=1 << 30))
    source = """
import os
file = os.open("f", os.O_WRONLY | os.O_CREAT)
for _ in range(7):
    try: print(os.write(file, b"x"), end=" ")
    except OSError: print("failed", end=" ")
"""
    assert ran(disk, source) == "1 failed 1 1 failed 1 1"
    assert disk.came() == 2
