"""Hostile input and failures: each call gets a sentence, and the next call works."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from engine.core.clock import SystemClock
from engine.log.store.memory import MemoryStore
from mcp_tools.client_session import MAX_HANDLES, MAX_WAITING, REBOUND, TIMED_OUT, TOO_MANY_HANDLES, TOO_MANY_WAIT
from tests.support.mcp_clients import ERAS, Caller, Era, served, text_of

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "code",
    ["a = view('\\N{nobody}')", "a = view('\\x')", "a = view('\0')", "a = view('\\U99999999')"],
)
async def test_invalid_literal_fails_only_its_statement(project: Path, code: str) -> None:
    async with served(project, runs=True) as caller:
        await caller.result("run", code=code)
        assert await caller.text("view", path="a.txt")
        assert (await caller.text("view")).startswith("1 handle")


REBINDING = "view = 5; del show\ndef group(*members, **options): raise KeyError\nrestore_names = __rewindow__ = None"


async def test_calls_work_after_names_are_rebound(project: Path) -> None:
    store = MemoryStore(SystemClock())
    async with served(project, runs=True, store=store, session="work") as caller:
        await caller.text("run", code=REBINDING)
        assert "two" in await caller.text("view", path="a.txt")
        assert "two" in await caller.text("view", name="a", follow=True)
        assert (await caller.text("group", name="g", add=["a"])).startswith("g  a  ")
        assert (await caller.text("group", name="g", add=["*.txt"])).startswith("g  a, *.txt  ")
        assert (await caller.text("run", code="view")).endswith("\n5")
        listed = await caller.text("timeline")
        assert "a = __rewindow__.view('a.txt', tokens=2000)" in listed
        assert "__rewindow__.show(g.Add('*.txt'))" in listed
        await _killed(caller)
        assert "two" in await caller.text("view", name="a")
    async with served(project, runs=True, store=store, session="work") as caller:
        assert "two" in await caller.text("view", name="a")
        assert (await caller.text("view", path="a.txt")).startswith("a  ")
        assert (await caller.text("run", code="view")).endswith("\n5")


async def test_thread_rebinding_a_name_fails_one_call(project: Path) -> None:
    go, went = project / "go", project / "went"
    code = f"""
import os, threading, time
def rebind():
    global view
    while not os.path.exists({str(go)!r}):
        time.sleep(0.01)
    view = lambda *members, **options: None
    os.mkdir({str(went)!r})
threading.Thread(target=rebind).start()"""
    async with served(project, runs=True) as caller:
        await caller.text("run", code=code)
        go.touch()
        with anyio.fail_after(10):
            while not went.exists():  # noqa: ASYNC110 -- a thread of another process makes it
                await anyio.sleep(0.01)
        assert await caller.error("view", path="a.txt") == REBOUND
        assert "two" in await caller.text("view", path="a.txt")


async def test_concurrent_views_of_equal_stems_are_distinct(project: Path) -> None:
    for folder in ("x", "y", "z"):
        (project / folder).mkdir()
        (project / folder / "a.txt").write_text(f"in {folder}\n")
    async with served(project) as caller:
        async with anyio.create_task_group() as tasks:
            for folder in ("x", "y", "z"):
                tasks.start_soon(lambda folder=folder: caller.text("view", path=f"{folder}/a.txt"))
        assert (await caller.text("view")).startswith("3 handles\n")


async def test_statement_rebinds_handles(project: Path) -> None:
    async with served(project, runs=True) as caller:
        await caller.text("view", path="a.txt")
        await caller.text("run", code="b = a; a = 5")
        assert await caller.error("view", name="a") == "a is a variable of this session, not a view."
        assert (await caller.text("view", name="b")).startswith("b  a.txt  ")
        assert (await caller.text("view", path="a.txt")).startswith("b  ")
        await caller.text("run", code="class ViewHandle: pass\nx = ViewHandle()")
        assert "takes a handle made by view() or group()" in await caller.error("view", name="x")
        await caller.text("run", code="del b")
        assert "There is no view b" in await caller.error("view", name="b")


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        os.chdir(path.parent)  # because socket addresses are short
        bound.bind(path.name)


def _link(to: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(to)


REPLACED: dict[str, tuple[Callable[[Path], None], str]] = {
    "nothing": (lambda path: None, "no file a.txt"),
    "a pipe": (_pipe, "a named pipe, not a regular file"),
    "a socket": (_socket, "a socket, not a regular file"),
    "a link outside": (_link("/etc/passwd"), "outside the workspace"),
    "a link to a device": (_link("/dev/zero"), "outside the workspace"),
    "a link to itself": (_link("a.txt"), "cannot be read"),
    "a directory": (Path.mkdir, "(empty directory)"),
}


@pytest.mark.parametrize("what", REPLACED)
async def test_replaced_file_does_not_block(project: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    replace, said = REPLACED[what]
    async with served(project) as caller:
        await caller.text("view", path="a.txt", follow=True)
        (project / "a.txt").unlink()
        replace(project / "a.txt")
        for tool, given in (("tick", {}), ("view", {"name": "a", "refresh": True}), ("tick", {"wait": 0.1})):
            text = await caller.text(tool, **given)
            assert "root:" not in text
        assert said in await caller.text("view", name="a", refresh=True)
        group = await caller.text("group", name="g", add=["a", "*"])
        assert "root:" not in group
        (read,) = (await caller.client.read_resource("view://a")).contents
        assert "root:" not in read.model_dump_json()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("mcp://x", "only file:// links can be opened"),
        ("...", "no file ...."),
        ("a/" * 1800, "no file a/a/a/"),
        ("x\ny" * 1000, "… cannot be read: File name too long."),
        ("a\0b", "is not a valid path"),
        (" ", "no file  ."),
    ],
)
async def test_odd_paths_are_refused_in_one_line(project: Path, path: str, said: str) -> None:
    async with served(project) as caller:
        text = await caller.error("view", path=path)
        assert said in text
        assert "\n" not in text
        assert len(text) < 300


async def test_symlinked_root(project: Path, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(project)
    async with served(tmp_path / "linked") as caller:
        await caller.text("view", path="a.txt")
        await caller.text("view", name="whole", path=str(project / "a.txt"))


async def test_handle_names_of_odd_file_names(project: Path) -> None:
    async with served(project) as caller:
        for name in ("1" * 200, "a" * 200, "é", "class", "__init__", "-", "_" * 70):
            (project / f"{name}.txt").write_text("x\n")
            first = (await caller.text("view", path=f"{name}.txt")).partition("  ")[0]
            assert first.isidentifier()
            assert len(first) <= 64 - len("_256")
            assert (await caller.text("view", name=first)).startswith(f"{first}  ")


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("tool", "given", "said"),
    [
        ("tick", {"wait": 1e300}, "`wait` must be from 0 to 25, not 1e+300."),
        ("tick", {"since": 10**4000}, "`since` must be an integer from "),
        ("view", {"name": "a", "scroll": -(10**4000)}, "`scroll` must be an integer from "),
        ("view", {"path": "a.txt", "pos": 10**4000}, "`pos` must be an integer from "),
        ("view", {"name": "a\nb"}, "There is no view a\\nb; "),
        ("group", {"name": "g", "add": ["{" * 50 + "*" * 3000]}, "group("),
    ],
)
async def test_huge_numbers_and_texts(project: Path, tool: str, given: dict[str, object], said: str, era: Era) -> None:
    async with served(project, era=era) as caller:
        await caller.text("view", path="a.txt")
        text = await caller.error(tool, **given)
        assert said in text
        assert len(text) < 1100
        assert (await caller.text("view")).startswith("1 handle")


@pytest.mark.slow
async def test_waiting_calls_are_limited(project: Path) -> None:
    async with served(project) as caller:
        await caller.text("view", path="a.txt", follow=True)
        refused: list[str] = []
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                result = await caller.result("tick", wait=25)
                if result.is_error:
                    refused.append(text_of(result))
                    (project / "a.txt").write_text("changed\n")

            for _ in range(MAX_WAITING + 1):
                tasks.start_soon(wait)
        assert refused == [TOO_MANY_WAIT]


@pytest.mark.slow
async def test_waiting_calls_see_another_clients_tick(project: Path) -> None:
    async with served(project) as caller:
        await caller.text("view", path="a.txt", follow=True)
        told: list[str] = []
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:

                async def wait() -> None:
                    told.append(await caller.text("tick", wait=25))

                tasks.start_soon(wait)
                tasks.start_soon(wait)
                await anyio.sleep(0.1)
                (project / "a.txt").write_text("changed\n")
                assert (await caller.text("tick")).startswith("a: ")
        assert [text.partition(":")[0] for text in told] == ["a", "a"]


@pytest.mark.slow
async def test_handles_are_limited(project: Path) -> None:
    async with served(project) as caller:
        for number in range(MAX_HANDLES):
            await caller.text("view", name=f"v{number}", path="a.txt", tokens=1)
        for tool, given in (("view", {"path": "a.txt", "name": "more"}), ("group", {"name": "more"})):
            assert await caller.error(tool, **given) == TOO_MANY_HANDLES
        await caller.text("view", name="v5", close=True)
        await caller.text("view", name="more", path="a.txt")


@pytest.mark.slow
async def test_slow_call_is_stopped(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_tools.client_session.CALL_SECONDS", 0.2)
    async with served(project, runs=True) as caller:
        await caller.text("view", path="a.txt")
        await caller.text("run", code="import time\ntype(a).Refresh = lambda self: time.sleep(60)")
        with anyio.fail_after(10):
            said = await caller.error("view", name="a", refresh=True)
        assert said == TIMED_OUT
        assert "two" in await caller.text("view", name="a")


async def _killed(caller: Caller) -> None:
    assert "WorkerDied" in await caller.error("run", code="import os, signal; os.kill(os.getpid(), signal.SIGKILL)")


@pytest.mark.parametrize("era", ERAS)
async def test_killed_worker_returns_with_its_handles(project: Path, era: Era) -> None:
    async with served(project, runs=True, era=era) as caller:
        await caller.text("view", path="a.txt")
        await _killed(caller)
        assert "two" in await caller.text("view", name="a")


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_cancelled_calls_during_rebuild(project: Path, era: Era) -> None:
    async with served(project, runs=True, era=era) as caller:
        await caller.text("view", path="a.txt")
        for pause in (0, 0.001, 0.005, 0.01, 0.02, 0.05):
            await _killed(caller)
            with anyio.move_on_after(pause):
                await caller.text("view", name="a")
            assert "two" in await caller.text("view", name="a")


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_cancelled_statement_and_wait_end(project: Path, era: Era) -> None:
    async with served(project, runs=True, era=era) as caller:
        await caller.text("view", path="a.txt", follow=True)
        for tool, given in (("run", {"code": "while True: pass", "seconds": 600}), ("tick", {"wait": 25})):
            with anyio.move_on_after(0.1):
                await caller.text(tool, **given)
            with anyio.fail_after(10):
                assert "two" in await caller.text("view", name="a")
        assert "2  cancelled " in await caller.text("timeline")


@pytest.mark.slow
async def test_concurrent_calls_do_not_interleave(project: Path) -> None:
    code = "log.append(('begin', {0}))\nfor _ in range(1000): pass\nlog.append(('end', {0}))"
    async with served(project, runs=True) as caller:
        await caller.text("run", code="log = []")
        async with anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(lambda number=number: caller.text("run", code=code.format(number)))
                tasks.start_soon(lambda number=number: caller.text("view", name=f"v{number}", path="a.txt"))
                tasks.start_soon(lambda: caller.text("tick"))
        check = "[a[1] for a in log[::2]] == [b[1] for b in log[1::2]] and len(log)"
        assert (await caller.text("run", code=check)).endswith("\n100")
        assert (await caller.text("view")).startswith("50 handles")


async def test_glob_below_symlink_stays_inside(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "secret.txt").write_text("SECRET")
    (outside / "deep" / "secret.txt").write_text("SECRET")
    (project / "evil").symlink_to(outside)
    (project / "src").mkdir()
    (project / "src" / "fine.txt").write_text("fine\n")
    (project / "inner").symlink_to("src")
    async with served(project) as caller:
        for number, glob in enumerate(("evil/*", "evil/**/*", "evil/deep/*", "evil/s[e]cret*", "{evil,src}/**/*")):
            shown = await caller.text("group", name=f"g{number}", add=[glob])
            assert "secret.txt" not in shown
        assert "fine" in await caller.text("group", name="h", add=["inner/*"])
