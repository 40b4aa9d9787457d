"""What a model's statement leaves behind to be run later has no more rights then: real workers, a real kernel.

In the namespace, in the interpreter and on the disk; run when the user types something, when values are shown, kept
and loaded, when commands run with the user's rights, when the worker ends. Without a sandbox most of it gets out, which
shows that it is run.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine import PermissionAnswer, PermissionQuestion
from engine.log.permissions import CommandSubject, RebuildSubject, StatementSubject
from tests.support.models import AnsweringModel, runs
from tests.support.sessions import sessions_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PLANTS = """
import atexit, builtins, ctypes, os, pathlib, signal, sys, tempfile, threading, time
C = ctypes.CDLL(None)
def plant(name):
    C.open(f"{WORK}/{name}".encode(), 0o101, 0o600)

class Left:
    def __repr__(self):
        plant("repr")
        return "left"
    def __reduce__(self):
        return plant, ("loaded",)
    def __del__(self):
        plant("deleted")
left = Left()

atexit.register(plant, "exit")
signal.signal(signal.SIGALRM, lambda *_: plant("signal"))
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.05)
def go_on():
    while True:
        plant("thread")
        time.sleep(0.05)
threading.Thread(target=go_on, daemon=True).start()
if not os.fork():
    os.setsid()
    go_on()

class Finder:
    def find_spec(self, name, path=None, target=None):
        plant("import")
sys.meta_path.insert(0, Finder())
class Module:
    def __getattr__(self, name):
        plant("module")
sys.modules["colorsys"] = Module()
def replaced(name, function):
    def call(*arguments, **more):
        plant(name)
        return function(*arguments, **more)
    return call
builtins.sorted = replaced("builtin", builtins.sorted)
os.getcwd = replaced("function", os.getcwd)
ls = replaced("name", ls)

scratch = pathlib.Path(tempfile.gettempdir()) / "left"
(scratch / "bin").mkdir(parents=True, exist_ok=True)
for name in ("ls", "git", "python3"):
    (scratch / "bin" / name).write_text(f"#!/bin/sh\\necho > {WORK}/program-{name}\\n")
    (scratch / "bin" / name).chmod(0o755)
for name in ("usercustomize.py", "sitecustomize.py", "left.pth"):
    (scratch / name).write_text(f"import os; os.open({WORK!r} + '/{name}', 65)")
(scratch / "profile").write_text(f"echo > {WORK}/profile\\n")
(scratch / "gitconfig").write_text(f"[core]\\n\\tfsmonitor = touch {WORK}/fsmonitor\\n")
os.environ |= {
    "PATH": f"{scratch / 'bin'}:{os.environ['PATH']}",
    "PYTHONPATH": str(scratch),
    "BASH_ENV": str(scratch / "profile"),
    "GIT_CONFIG_GLOBAL": str(scratch / "gitconfig"),
    "HOME": str(scratch),
}
"""
TYPED = (
    "left",
    "sorted([2, 1])",
    "import colorsys; colorsys.rgb_to_hsv",
    "import wave",
    "os.getcwd()",
    "ls()",
    "__rewindow__.bash('ls; git status; python3 -c pass; true').code",
    "import subprocess; subprocess.run(['ls'], capture_output=True).returncode",
    "kept = [left, left]",
)


class User:
    """Allows commands, and without a sandbox the model's statement; nothing else."""

    def __init__(self, *, trusts: bool) -> None:
        self._trusted = (CommandSubject, StatementSubject, RebuildSubject) if trusts else (CommandSubject,)
        self.asked: list[PermissionQuestion] = []

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        self.asked.append(question)
        is_allowed = isinstance(question.subject, self._trusted)
        return PermissionAnswer(outcome="allowed" if is_allowed else "rejected")


@pytest.mark.parametrize("restore_by", ["re-execution", "checkpoints"])
@pytest.mark.parametrize("rule", ["required", "off"])
async def test_nothing_that_was_left_gets_out_later(tmp_path: Path, rule: str, restore_by: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    model = AnsweringModel(runs(PLANTS.replace("{WORK}", str(work)).replace("{WORK!r}", repr(str(work))), typed=False))
    settings: dict[str, object] = {"sandbox": rule, "restore_by": restore_by}
    async with sessions_of(tmp_path / "state", model=model, settings=settings, PATH=os.environ["PATH"]) as sessions:
        session = await sessions.create(str(work))
        user = User(trusts=rule == "off")
        session.attach(user)
        await session.accept("go").end()
        finished = session.cells[0].finished
        assert finished is not None
        assert finished.status == "ok", finished.exception
        for typed in TYPED:
            ran = await session.cell(typed)
            assert ran.status == "ok", (typed, ran.exception)
        await session.look(["left"], at_sources=True)
        await session.projection()
        await session.rest()
        await session.cell("left")
        for name, value in (("network", "on"), ("network", "off")):
            session.set_option(name, value)
            await session.cell("1")
        session.set_mode("auto")
        await session.cell("2")
    found = set(os.listdir(work))
    if rule == "required":
        assert found == set()
        assert [each for each in user.asked if isinstance(each.subject, CommandSubject)]
    else:
        assert found >= {"repr", "signal", "thread", "import", "module", "builtin", "function", "name"}
