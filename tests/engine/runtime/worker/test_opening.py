"""`open` of a statement: the built-in's behaviour, and one write of the host's for each file that was written."""

from __future__ import annotations

import builtins
import errno
import gc
import io
import mmap
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.files.revision import digest_of
from engine.runtime.worker.writes import staging
from engine.runtime.worker.writes.opening import Opening

Write = tuple[str, bytes, str | None]


class Host:
    """Answers each write by doing it, in a workspace of its own."""

    ours, running, replaying, planning, busy, goes_by_record = True, True, False, False, False, False

    def __init__(self, root: Path) -> None:
        self.root = root
        self.writes: list[Write] = []
        self.error: Exception | None = None
        self.ends = False
        """Whether the statement ends before its question is asked."""
        self.opening = Opening(self, self.ask, (str(root),))
        self.open: Callable[..., Any] = self.opening.open

    def ask(self, operation: str, arguments: dict[str, Any], basis: str | None = None) -> object:
        assert operation == "write"
        if self.ends:
            self.running = False
            raise RuntimeError("write() can only be called while a statement runs")
        self.writes.append((arguments["path"], arguments["text"], basis))
        if self.error is not None:
            raise self.error
        if not self.replaying:
            (self.root / arguments["path"]).write_bytes(arguments["text"])
        return {}

    def has_answer(self, operation: str, arguments: dict[str, object]) -> bool:
        del operation, arguments
        return False

    def recalled_file(self, place: str, *, content: bool) -> None:
        """Of a statement that is in nobody's place."""

    def settle(self) -> list[BaseException]:
        return self.opening.settle()


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    (tmp_path / "project").mkdir()
    (tmp_path / "outside").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return Host(tmp_path / "project")


def test_what_is_written_lands_at_close_as_one_write(host: Host) -> None:
    with host.open("a.txt", "w") as file:
        for _ in range(3):
            file.write("é\n" * 10_000)
            file.flush()
        assert not host.writes
        assert not Path("a.txt").exists()
    assert host.writes == [("a.txt", "é\n".encode() * 30_000, None)]
    file.close()
    assert host.settle() == []
    assert len(host.writes) == 1


@pytest.mark.parametrize("mode", ["w", "wb", "a", "x", "w+", "ab+"])
def test_the_last_reference_closes(host: Host, mode: str) -> None:
    host.open("a", mode).write(b"x" if "b" in mode else "x")
    assert [content for _, content, _ in host.writes] == [b"x"]


def test_a_raw_file_lands_too(host: Host) -> None:
    with host.open("a", "wb", buffering=0) as file:
        assert type(file).__mro__[2] is io.FileIO
        assert file.write(b"ab") == 2
    host.open("b", "wb", 0).write(b"c")
    assert [content for _, content, _ in host.writes] == [b"ab", b"c"]


def test_open_file_lands_after_each_statement_that_wrote(host: Host) -> None:
    file = host.open("log", "w")
    assert host.settle() == []
    assert [write[1] for write in host.writes] == [b""]
    file.write("one\n")
    assert host.settle() == []
    assert host.settle() == []
    assert Path("log").read_text() == "one\n"
    file.write("two\n")
    file.close()
    assert host.writes[1:] == [("log", b"one\n", digest_of(b"")), ("log", b"one\ntwo\n", digest_of(b"one\n"))]
    assert host.settle() == []


def test_the_basis_of_an_addition_is_what_was_there(host: Host) -> None:
    Path("a").write_bytes(b"one\r\n")
    for mode in ("a", "r+", "rb+", "a+"):
        with host.open("a", mode) as file:
            pass
        assert not host.writes
    with host.open("a", "a") as file:
        file.write("two\n")
        assert file.tell() == 9
    assert host.writes == [("a", b"one\r\ntwo\n", digest_of(b"one\r\n"))]
    with host.open("a", "w"):
        pass
    assert host.writes[1] == ("a", b"", None)


def test_a_program_writes_into_the_file(host: Host) -> None:
    with host.open("a", "w") as file:
        file.write("ours\n")
        file.flush()
        subprocess.run(["sh", "-c", "echo theirs"], stdout=file, check=True)
    with host.open("a", "rb+") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:4] = b"OURS"
    assert Path("a").read_text() == "OURS\ntheirs\n"


def test_reading_devices_pipes_and_descriptors_are_the_built_in_s(
    host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "outside"))
    (tmp_path / "outside" / "a").write_text("home")
    with host.open("~/a") as file:
        assert file.read() == "home"
        assert type(file) is io.TextIOWrapper
    os.mkfifo("pipe")
    for place in ("/dev/null", "/dev/full", "pipe"):
        with host.open(place, "r+b" if place == "pipe" else "wb", 0) as file:
            assert type(file) is io.FileIO
    descriptor = os.open(tmp_path / "outside" / "a", os.O_WRONLY)
    with host.open(descriptor, "w") as file:
        file.write("direct")
    with host.open("made", "w", opener=os.open) as file:
        file.write("direct")
    assert Path("made").read_text() == (tmp_path / "outside" / "a").read_text() == "direct"
    assert not host.writes


@pytest.mark.parametrize(
    ("file", "mode", "error"),
    [
        ("there", "x", FileExistsError),
        ("dangling", "x", FileExistsError),
        ("missing", "r+", FileNotFoundError),
        ("missing/a", "w", FileNotFoundError),
        ("folder", "w", IsADirectoryError),
        ("there/a", "w", NotADirectoryError),
        ("../outside/a", "w", PermissionError),
        ("/tmp/somewhere", "w", PermissionError),
        ("~/a", "a", PermissionError),
        ("leading-out", "a", PermissionError),
        ("a\0b", "w", ValueError),
        (b"\xff", "w", ValueError),
        (None, "w", TypeError),
        (3.5, "w", TypeError),
        ("a", "q", ValueError),
        ("a", "wr", ValueError),
        ("a", None, TypeError),
    ],
)
def test_what_cannot_be_written_is_refused_when_it_is_opened(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: Any, mode: Any, error: type[Exception]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "outside"))
    Path("there").touch()
    Path("dangling").symlink_to("nowhere")
    Path("leading-out").symlink_to("../outside/a")
    Path("folder").mkdir()
    with pytest.raises(error):
        host.open(file, mode)
    assert not host.writes
    assert sorted(os.listdir()) == ["dangling", "folder", "leading-out", "there"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"mode": "w", "encoding": "nothing"},
        {"mode": "wb", "encoding": "utf-8"},
        {"mode": "w", "buffering": 0},
        {"mode": "w", "newline": "x"},
        {"mode": "w", "errors": "nothing", "encoding": "ascii"},
        {"mode": "w", "closefd": False},
        {"mode": "wb", "newline": "\n"},
        {"mode": "w", "buffering": "x"},
    ],
)
def test_wrong_arguments_are_refused_as_the_built_in_refuses_them(host: Host, arguments: dict[str, Any]) -> None:
    found: list[str] = []
    for opened in (host.open, builtins.open):
        try:
            opened("a", **arguments).close()
        except (ValueError, TypeError, LookupError) as error:
            found.append(f"{type(error).__name__}: {error}")
        Path("a").unlink(missing_ok=True)
    assert len(found) in (0, 2)
    assert len(set(found)) < 2


def test_the_object_looks_like_the_built_in_s(host: Host) -> None:
    for mode in ("w", "wb", "a+", "x", "w+b"):
        buffering = 1 if "b" not in mode else -1
        with host.open("ours", mode, buffering) as ours, builtins.open("theirs", mode, buffering) as theirs:
            base = type(theirs)
            assert isinstance(ours, base)
            for name in ("mode", "encoding", "errors", "newlines", "line_buffering"):
                assert getattr(ours, name, None) == getattr(theirs, name, None), (mode, name)
            assert (ours.name, ours.readable(), ours.writable(), ours.seekable()) == (
                "ours", theirs.readable(), theirs.writable(), theirs.seekable()
            )  # fmt: skip
            assert os.get_inheritable(ours.fileno()) is False
        Path("ours").unlink(missing_ok=True)
        Path("theirs").unlink(missing_ok=True)


def test_what_landing_raises_is_raised_by_close_and_with(host: Host) -> None:
    host.error = PermissionError("rejected")
    with pytest.raises(PermissionError, match="rejected"), host.open("a", "w") as file:
        file.write("x")
    assert file.closed
    with pytest.raises(PermissionError, match="rejected"):
        host.open("a", "wb").close()
    del file
    assert host.settle() == []


def test_errors_of_finalizers_come_at_the_end_of_the_statement(host: Host) -> None:
    host.error = PermissionError("rejected")
    host.open("a", "w").write("x")
    host.error = OSError("no space")
    left = host.open("b", "w")
    errors = host.settle()
    assert list(map(str, errors)) == ["rejected", "no space"]
    assert "the last reference to the file a was removed" in errors[0].__notes__[0]
    assert host.settle() == []
    host.error = None
    left.write("more")
    left.close()
    assert host.writes[-1] == ("b", b"more", None)


def test_file_collected_during_a_question_lands_later(host: Host) -> None:
    host.busy = True
    host.open("a", "w").write("x")
    assert not host.writes
    host.busy = False
    assert host.settle() == []
    assert host.writes == [("a", b"x", None)]


def test_thread_after_its_statement_writes_directly(host: Host) -> None:
    file = host.open("a", "w")
    file.write("begun")
    host.running = False
    with host.open("b", "w") as other:
        assert type(other) is io.TextIOWrapper
        other.write("direct")
    file.close()
    assert not host.writes
    host.running = True
    assert host.settle() == []
    assert host.writes == [("a", b"begun", None)]
    assert Path("b").read_text() == "direct"


def test_what_a_thread_could_not_ask_any_more_lands_later(host: Host) -> None:
    host.ends = True
    host.open("a", "w").write("begun")
    host.ends, host.running = False, True
    assert not host.writes
    assert host.settle() == []
    assert host.writes == [("a", b"begun", None)]


def test_detached_layers_land_when_the_last_of_them_is_closed(host: Host) -> None:
    text = host.open("a", "w")
    text.write("one")
    buffer = text.detach()
    buffer.write(b"two")
    del text
    gc.collect()
    assert not host.writes
    assert host.settle() == []
    assert host.writes == [("a", b"onetwo", None)]
    raw = buffer.detach()
    del buffer
    raw.write(b"three")
    del raw
    assert host.writes[1] == ("a", b"onetwothree", digest_of(b"onetwo"))


def test_too_large_file_is_refused_whole(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "LARGEST", 1 << 20)
    monkeypatch.setattr("engine.runtime.worker.writes.opening.LARGEST", 1 << 20)
    with (
        pytest.raises(OSError, match=r"files of up to 1 MiB; io.open\(\) writes larger files") as refused,
        host.open("a", "wb") as file,
    ):
        file.writelines([bytes(10_000)] * 1_000)
    assert refused.value.errno == errno.EFBIG
    with pytest.raises(OSError, match="up to 1 MiB"):
        host.open("a", "wb").truncate(1 << 30)
    Path("large").write_bytes(bytes((1 << 20) + 1))
    for mode in ("w", "a", "r+"):
        with pytest.raises(OSError, match="up to 1 MiB"):
            host.open("large", mode)
    with host.open("a", "wb") as file:
        subprocess.run(["head", "-c", "2000000", "/dev/zero"], stdout=file, check=True)
        with pytest.raises(OSError, match="up to 1 MiB"):
            file.close()
    assert not host.writes
    assert host.settle() == []


def test_replay_takes_recorded_answers_without_looking(host: Host) -> None:
    host.replaying = True
    Path("there").write_text("later\n")
    for path, mode in (("there", "x"), ("missing", "r+"), ("missing/a", "w"), ("../outside/a", "w"), ("there", "a")):
        with host.open(path, mode) as file:
            file.write("x")
    assert [content for _, content, _ in host.writes] == [b"x"] * 4 + [b"later\nx"]


def test_in_a_forked_process_it_is_the_built_in(host: Host) -> None:
    file = host.open("a", "w")
    file.write("parent")
    host.ours = False
    with host.open("b", "w") as other:
        assert type(other) is io.TextIOWrapper
    file.close()
    assert host.settle() == []
    assert not host.writes
    assert not Path("a").exists()


OPERATIONS = st.one_of(
    st.tuples(st.just("write"), st.text("aé\n\r", max_size=6)),
    st.tuples(st.just("seek"), st.integers(0, 12)),
    st.tuples(st.just("read"), st.integers(-1, 5)),
    st.tuples(st.just("truncate"), st.none() | st.integers(0, 12)),
    st.tuples(st.just("flush")),
    st.tuples(st.just("tell")),
    st.tuples(st.just("readline")),
    st.tuples(st.just("close")),
)


@given(
    st.sampled_from(["w", "wb", "a", "ab", "w+", "wb+", "r+", "rb+", "a+", "ab+", "x", "x+"]),
    st.sampled_from([-1, 1, 7]),
    st.sampled_from([None, "", "\n", "\r\n"]),
    st.none() | st.binary(max_size=8),
    st.lists(OPERATIONS, max_size=8),
)
def test_it_does_what_the_built_in_does(
    tmp_path_factory: pytest.TempPathFactory,
    mode: str,
    buffering: int,
    newline: str | None,
    existing: bytes | None,
    operations: list[tuple[Any, ...]],
) -> None:
    folder = tmp_path_factory.mktemp("open")
    host = Host(folder)
    options: dict[str, Any] = {"encoding": "latin-1", "newline": newline} if "b" not in mode else {}
    buffering = -1 if "b" in mode and buffering == 1 else buffering
    results: list[list[object]] = []
    for name, opened in (("ours", host.open), ("theirs", builtins.open)):
        place = folder / name
        if existing is not None:
            place.write_bytes(existing)
        results.append(
            done(lambda opened=opened, place=place: opened(place, mode, buffering, **options), operations, "b" in mode)
        )
        results[-1].append(place.read_bytes() if place.exists() else None)
    assert results[0] == results[1]
    assert host.settle() == []


def done(opening: Callable[[], Any], operations: list[tuple[Any, ...]], is_binary: bool) -> list[object]:
    """What each operation returned or raised, with closing at the end."""
    found: list[object] = []
    try:
        file = opening()
    except OSError as error:
        return [type(error)]
    for name, *arguments in [*operations, ("close",)]:
        given = [each.encode() if isinstance(each, str) and is_binary else each for each in arguments]
        try:
            found.append(getattr(file, name)(*given))
        except (OSError, ValueError) as error:
            found.append(type(error))
    return found


def test_later_writes_of_a_program_land_with_a_statement(host: Host) -> None:
    source = "echo before; read go; echo after; read end"
    child = subprocess.Popen(["sh", "-c", source], stdin=subprocess.PIPE, stdout=host.open("log", "w"))
    assert child.stdin is not None
    with child:
        until(lambda: host.settle() == [] and Path("log").read_text() == "before\n")
        child.stdin.write(b"\n")
        child.stdin.flush()
        until(lambda: host.settle() == [] and Path("log").read_text() == "before\nafter\n")
    assert host.settle() == []
    landed = len(host.writes)
    assert host.settle() == []
    assert len(host.writes) == landed
    assert not [name for name in os.listdir("/proc/self/fd") if leads_to_memory(f"/proc/self/fd/{name}")]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)  # because nobody says when a program has written


def leads_to_memory(link: str) -> bool:
    try:
        return "rewindow-open" in os.readlink(link)
    except OSError:
        return False


def test_files_closed_by_threads_land_once(host: Host) -> None:
    ended = threading.Event()

    def write(thread: int) -> None:
        for number in range(40):
            with host.open(f"{thread}-{number}", "w") as file:
                file.write(f"{thread}-{number}\n" * 3)
        ended.set()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    errors: list[BaseException] = []
    while not ended.is_set():
        errors += host.settle()
    for thread in threads:
        thread.join(20)
    assert errors == host.settle() == []
    for name in (f"{thread}-{number}" for thread in range(3) for number in range(40)):
        assert Path(name).read_text() == f"{name}\n" * 3
