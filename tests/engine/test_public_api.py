"""The engine's face: which names it has, that each loads alone, and that a program outside can bring its own parts."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
import pytest

import engine
from engine import Host, Settings
from engine.context.tail.results import result_text
from engine.core.domain import Layer
from engine.core.execution import ExceptionInfo
from engine.core.programs import CommandOutcome, CommandRequest
from engine.files.sources import Buffers
from engine.files.tails import News, ProjectionPart
from engine.log.events.conversation import ToolResult
from engine.log.events.execution import ExecutionFinished
from engine.log.past import CheckpointNews, Comparison, Contents, PastExecution, Preserved, Restored, RestorePlan
from engine.log.statements import (
    EffectHandler,
    OutputSink,
    RunOutcome,
    RunRequest,
    TickOutcome,
    TouchSink,
    UpdatePayload,
    ignore_touched,
)
from engine.runtime.environment import EnvironmentSpec

SECONDS = 20.0


class Abacus:
    """A fake Environment from outside: its statements are sums, such as `1 + 2`."""

    def __init__(self) -> None:
        self.alive = self.idle = False
        self.layers: Sequence[Layer] = ()
        self.rerunning: engine.ExecutionId | None = None
        self.ran: list[str] = []

    async def loss(self) -> str | None:
        return None

    async def start(self, spec: EnvironmentSpec) -> None:
        self.alive = True

    async def run(
        self,
        request: RunRequest,
        effects: EffectHandler,
        output: OutputSink,
        touched: TouchSink = ignore_touched,
        begun: Callable[[], None] | None = None,
    ) -> RunOutcome:
        self.ran.append(request.source)
        output("stdout", "counting\n")
        try:
            return RunOutcome(status="ok", value=str(sum(int(part) for part in request.source.split("+"))))
        except ValueError as error:
            return RunOutcome(status="error", exception=ExceptionInfo(type="ValueError", message=str(error)))

    def interrupt(self) -> None:
        pass

    async def command(self, request: CommandRequest, output: OutputSink) -> CommandOutcome:
        raise FileNotFoundError(request.argv[0])

    async def tick(self, round_id: int, now: float, payloads: Sequence[UpdatePayload] = ()) -> TickOutcome:
        return TickOutcome()

    async def project(self, texts: Sequence[str], budget: int, news: News | None = None) -> ProjectionPart:
        return ProjectionPart(tail="", tail_tokens=0, text_tokens=tuple(map(len, texts)))

    async def restore(self, plan: RestorePlan, contents: Contents, compare: Comparison) -> Restored:
        self.ran += [step.request.source for step in plan.steps if isinstance(step, PastExecution)]
        return Restored(executions=len(plan.steps))

    def follow(self, buffers: Buffers | None) -> None: ...

    def kept(self) -> Preserved | None:
        return None

    async def preserve(self, large: bool) -> Preserved:
        return Preserved()

    async def collect(self) -> Preserved:
        return Preserved()

    def read(self) -> None: ...

    async def snapshot(self, execution_id: str) -> bool:
        return False

    def checkpoints(self) -> Sequence[CheckpointNews]:
        return ()

    async def end(self) -> None:
        self.alive = False

    async def close(self) -> None:
        self.alive = False


@pytest.mark.anyio
async def test_a_program_outside_runs_prompts_on_an_environment_of_its_own(tmp_path: Path) -> None:
    abacus = Abacus()
    with anyio.fail_after(SECONDS):
        async with Host(Settings(state_dir=tmp_path), {}, environments=lambda: abacus) as host:
            session = await host.sessions.create(str(tmp_path))
            for text in ("20 + 22", "20 + x"):
                assert (await session.accept(text).end()).cause == "end_turn"
            assert (await session.cell("3 + 4")).value == "7"
            await host.sessions.close(session.session_id)
            assert not abacus.alive
            again = await host.sessions.load(session.session_id)
            assert (await again.accept("1 + 1").end()).cause == "end_turn"
    assert abacus.ran == ["20 + 22", "20 + x", "3 + 4", "20 + 22", "20 + x", "3 + 4", "1 + 1"]
    finished = [event for event in again.events if isinstance(event, ExecutionFinished)]
    assert [(each.value, each.status) for each in finished] == [
        ("42", "ok"),
        (None, "error"),
        ("7", "ok"),
        ("2", "ok"),
    ]
    assert "ValueError" in result_text(finished[1])
    assert next(event.text for event in again.events if isinstance(event, ToolResult)) == "42"


def test_the_fake_environment_is_as_short_as_promised() -> None:
    tree = ast.parse(Path(__file__).read_text())
    (fake,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Abacus"]
    assert fake.end_lineno is not None
    assert fake.end_lineno - fake.lineno < 70


def test_every_public_name_can_be_imported() -> None:
    for name in engine.__all__:
        getattr(engine, name)
    with pytest.raises(AttributeError, match="has no attribute 'parts'"):
        _ = engine.parts


def test_every_public_class_and_method_is_documented() -> None:
    bare = [
        f"{name}.{method}"
        for name in engine.__all__
        if inspect.isclass(kind := getattr(engine, name))
        for method, value in {"": kind, **vars(kind)}.items()
        if not method.startswith("_") and callable(value) and not value.__doc__
    ]
    assert bare == []


def test_names_are_those_of_the_modules_that_own_them() -> None:
    stub = ast.parse(Path(engine.__file__).with_suffix(".pyi").read_text())
    owners = {each.asname: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for each in node.names}
    assert owners.keys() == {*engine.__all__, "__version__"}
    for name, module in owners.items():
        owner = __import__(f"engine.{module}", fromlist=["*"])
        assert getattr(owner, str(name)) is getattr(engine, str(name))


def test_asking_for_one_name_loads_its_module_and_not_the_program() -> None:
    script = "import sys; from engine import Settings\nprint(sorted(m for m in sys.modules if m.startswith('engine.')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=SECONDS)
    assert done.stdout.strip() == (
        "['engine.core', 'engine.core.clock', 'engine.core.errors', 'engine.core.ids', 'engine.core.settings', "
        "'engine.core.text']"
    )


def test_no_module_behind_the_face_imports_it() -> None:
    """It would be a circle that no contract between the rooms sees."""
    face = Path(engine.__file__).parent
    rooms = {path.name for path in face.iterdir() if path.is_dir()}

    def of_face(path: Path) -> set[str]:
        depth = len(path.relative_to(face).parts)
        nodes = [
            node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.ImportFrom)
        ]
        return {each.name for node in nodes if node.level == depth and node.module is None for each in node.names}

    behind = [path for path in face.rglob("*.py") if path.parent != face]
    assert len(behind) > 100
    assert [path for path in behind if of_face(path) - rooms] == []
