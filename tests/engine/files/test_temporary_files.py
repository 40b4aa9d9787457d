"""A sweep removes the files of killed writers, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from engine.files.temporary_files import recorded, sweep

KILLED = """
import os, signal, sys
from pathlib import Path
from engine.files.temporary_files import recorded
with recorded(sys.argv[1], sys.argv[2]) as name:
    if sys.argv[3] == "made":
        Path(sys.argv[2], name).write_text("half")
    print(name, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(records: Path, folder: Path, when: str) -> str:
    """The name of the temporary file of a writer that was killed."""
    command = [sys.executable, "-c", KILLED, str(records), str(folder), when]
    return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout.strip()


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return tmp_path / "state" / "writing"


@pytest.mark.parametrize("when", ["recorded", "made"])
def test_what_a_killed_writer_leaves_is_removed(tmp_path: Path, records: Path, when: str) -> None:
    name = killed(records, tmp_path, when)
    assert (tmp_path / name).exists() == (when == "made")
    assert os.listdir(records)
    sweep(str(records))
    assert not (tmp_path / name).exists()
    assert os.listdir(records) == []


def test_a_living_writer_is_kept_and_removes_its_record(tmp_path: Path, records: Path) -> None:
    with recorded(str(records), str(tmp_path)) as name:
        (tmp_path / name).touch()
        sweep(str(records))
        assert (tmp_path / name).exists()
        assert len(os.listdir(records)) == 1
        (tmp_path / name).unlink()
    assert os.listdir(records) == []


def test_what_a_writer_cannot_remove_is_removed_at_the_next_start(tmp_path: Path, records: Path) -> None:
    with recorded(str(records), str(tmp_path)) as name:
        (tmp_path / name).touch()
    assert len(os.listdir(records)) == 1
    sweep(str(records))
    assert os.listdir(records) == []
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("text", [b"", b"relative", b"{folder}/precious", b"{folder}/.rewindow-0.tmp", b"\xff\x00/x"])
def test_a_record_of_another_file_removes_only_itself(tmp_path: Path, records: Path, text: bytes) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / ".rewindow-0.tmp").write_text("kept")
    records.mkdir(parents=True)
    (records / "record").write_bytes(text.replace(b"{folder}", os.fsencode(tmp_path)))
    sweep(str(records))
    assert (tmp_path / "precious").exists()
    assert (tmp_path / ".rewindow-0.tmp").exists()


def test_one_that_cannot_be_removed_stays_on_record(
    tmp_path: Path, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = killed(records, tmp_path, "made")

    def refuse(_: str) -> None:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        sweep(str(records))
    assert (tmp_path / name).exists()
    sweep(str(records))
    assert not (tmp_path / name).exists()


def test_failed_record_is_removed(tmp_path: Path, records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", write)
    with recorded(str(records), str(tmp_path)):
        assert list(records.iterdir()) == []


def test_without_a_records_directory_files_are_named_too(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for records in (None, str(tmp_path / "file" / "writing")):
        with recorded(records, str(tmp_path)) as name:
            assert name.startswith(".rewindow-")
    sweep(str(tmp_path / "nowhere"))


@pytest.mark.parametrize("rounds", [60, pytest.param(3_000, marks=pytest.mark.slow)])
def test_a_sweep_keeps_records_of_living_writers(tmp_path: Path, records: Path, rounds: int) -> None:
    ended = threading.Event()

    def sweep_on() -> None:
        while not ended.is_set():
            sweep(str(records))

    thread = threading.Thread(target=sweep_on)
    thread.start()
    try:
        for _ in range(rounds):
            with recorded(str(records), str(tmp_path)) as name:
                (tmp_path / name).touch()
                assert os.listdir(records) == [name]
                assert (tmp_path / name).exists()
                os.unlink(tmp_path / name)
    finally:
        ended.set()
        thread.join(10)
    assert os.listdir(records) == []
