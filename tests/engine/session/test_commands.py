"""Slash commands: what they take, what one that is misused is told, and a statement that the user runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import anyio
import pytest

from engine.core.python_source import TAG_RULE
from engine.log.events.conversation import ToolCall, UserMessage
from engine.log.events.execution import ExecutionStarted
from engine.log.store.memory import MemoryStore
from engine.session.commands.context import NOTHING_SANDBOXED
from engine.session.commands.table import COMMANDS
from engine.session.commands.timeline import no_tagged_statement
from engine.session.policy import MODES, OPTIONS
from engine.session.session import Session
from tests.support.fixed import FixedClock
from tests.support.models import AnsweringModel, runs, says
from tests.support.sessions import answer_to, events_of, session_in, sessions_of

pytestmark = pytest.mark.anyio
NO_TAIL = "The next prompt has no last part: there are no handles and no changes."


async def until_running(session: Session) -> None:
    subscription = session.subscribe()
    async for batch in subscription.batches(0):
        if any(isinstance(item, ExecutionStarted) for item in batch):
            return


async def test_help_names_every_command_with_its_arguments(tmp_path: Path) -> None:
    async with session_in(tmp_path, model=AnsweringModel(says("hi"))) as session:
        lines = (await answer_to(session, "/help")).splitlines()
    usages = [f"/{name} {command.usage}".rstrip() for name, command in COMMANDS.items()]
    assert [line.partition(":")[0] for line in lines] == [f"- `{usage}`" for usage in usages]
    assert all(bool(command.usage) == bool(command.hint) for command in COMMANDS.values())


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("/tick all", "`/tick` takes no argument."),
        ("/views some", "`/views` lists the newest handles, `/views all` all handles."),
        ("/run", "`/run` needs a Python statement: `/run STATEMENT`."),
        ("/timeline", "No statement has run yet."),
        ("/timeline 1", "No statement has run yet."),
        ("/omit 1", "No statement has run yet."),
        ("/context tail", NO_TAIL),
        ("/sandbox", NOTHING_SANDBOXED),
        ("/Views", "There is no command `/Views`. Did you mean `/views`? `/help` lists all."),
        ("/re", "There is no command `/re`. Did you mean `/rewind`, `/redo` or `/replay`? `/help` lists all."),
    ],
)
async def test_a_command_that_is_misused_says_how_it_is_used(tmp_path: Path, text: str, answer: str) -> None:
    async with session_in(tmp_path, model=AnsweringModel(says("hi"))) as session:
        assert await answer_to(session, text) == answer


async def test_a_command_that_nothing_is_near_names_all_there_are(tmp_path: Path) -> None:
    async with session_in(tmp_path, model=AnsweringModel(says("hi"))) as session:
        answer = await answer_to(session, "/status")
        assert all(f"`/{name}`" in answer for name in COMMANDS)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("/mode x", MODES),
        ("/modes", MODES),
        ("/option network on", OPTIONS),
    ],
)
async def test_what_is_set_elsewhere_names_the_values_or_the_place(
    tmp_path: Path, text: str, names: Iterable[str]
) -> None:
    async with session_in(tmp_path, model=AnsweringModel(says("hi"))) as session:
        answer = await answer_to(session, text)
        assert answer.startswith(f"There is no command `{text.split(maxsplit=1)[0]}`.")
        assert all(f"`{name}`" in answer for name in names)
        assert session.options.mode == "ask"


async def test_users_statement_needs_no_model_and_survives_a_reload(tmp_path: Path) -> None:
    model, store = AnsweringModel(says("hi")), MemoryStore(FixedClock())
    async with sessions_of(tmp_path, store, model=model) as sessions:
        session = await sessions.create(str(tmp_path))
        assert (await session.accept('/run x = """two\nlines"""\ny = 7').end()).cause == "end_turn"
        assert (await session.accept("/run 1 / 0").end()).cause == "end_turn"
        await sessions.close(session.session_id)
        session = await sessions.load(session.session_id)
        await session.accept("/run x, y").end()
        assert model.prompts == []
        assert [cell.finished and cell.finished.status for cell in session.cells] == ["ok", "error", "ok"]
        assert [cell.finished.value for cell in session.cells if cell.finished][-1] == r"('two\nlines', 7)"
        assert all(event.aside for event in events_of(session, UserMessage))
        assert not events_of(session, ToolCall)
        await session.accept("hello").end()
    assert "`1 / 0`, ended with status error" in model.prompts[0].tail


async def test_a_tick_calls_handles_by_names_that_work(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text("1\n")
    async with session_in(tmp_path, model=AnsweringModel(says("hi"))) as session:
        await session.cell("v, w, x = (view(each, freq='Sync') for each in 'abc')")
        await session.cell("g = group(group(group(v, w, x))); other = w; del v, w; x = 5")
        for name in ("a", "b", "c"):
            (tmp_path / name).write_text("2\n")
        answer = await answer_to(session, "/tick")
    assert [line.partition(":")[0] for line in answer.splitlines()[1:]] == [
        "- `view-1.1`",
        "- `other`",
        "- `view-1.3`",
        "- `group-2.1`",
        "- `g`",
    ], "the group between has nothing to tell"


async def test_overlong_statement_does_not_run_in_part(tmp_path: Path) -> None:
    async with session_in(tmp_path, model=AnsweringModel(says("hi"))) as session:
        assert (
            await answer_to(session, "/run " + "x = 1\n" * 200_000)
            == "A statement may have at most 1,000,000 characters."
        )
        assert list(session.cells) == []


async def test_a_command_waits_where_other_prompts_would_steer(tmp_path: Path) -> None:
    model = AnsweringModel(runs("import time\nwhile not stop.exists(): time.sleep(0.001)"))
    async with session_in(tmp_path, model=model) as session:
        await session.cell(f"from pathlib import Path; stop = Path({str(tmp_path / 'stop')!r})")
        session.set_option("while_running", "steer")
        running = session.accept("go")
        await until_running(session)
        tickets = [session.accept(text) for text in ("/run z = 1", "/tick", "be brief")]
        (tmp_path / "stop").touch()
        with anyio.fail_after(20):
            for ticket in (running, *tickets):
                await ticket.end()
        read = [message.text for message in model.prompts[-1].messages if isinstance(message, UserMessage)]
        assert read == ["go", "be brief"]
        assert session.cells[-1].statement.source == "z = 1"


async def test_the_timeline_says_where_branches_are_and_what_differed(tmp_path: Path) -> None:
    async with session_in(tmp_path) as session:
        for source in ("x = 1", "import os; os.urandom(4).hex()", "x"):
            await session.accept(source).end()
        alone = await answer_to(session, "/timeline")
        assert "`/rewind K` goes back" in alone
        assert "branch" not in alone.lower()
        await session.replay(2)
        assert (await answer_to(session, "/timeline 2")).startswith("2. `import os; os.urandom(4).hex()` (ok, ")
        await session.rewind(1)
        await session.switch("main")
        lines = (await answer_to(session, "/timeline")).splitlines()
        await session.accept("w = write('new.txt', '')").end()
        assert ", changed 1 file)" in (await answer_to(session, "/timeline")).splitlines()[5]
        await session.rewind(3)
        on_another = (await answer_to(session, "/timeline")).splitlines()
    assert [line.partition("(")[0] for line in lines] == [
        "Branch `main`:", "", "1. `x = 1` ", "2. `import os; os.urandom", "3. `x` ", "",
        "`/rewind K` goes back to the end of statement K, `/rewind 0` to the beginning, `/branch NAME` switches to"
        " another branch.",
    ]  # fmt: skip
    assert lines[2].endswith("; `b1` branches off here")
    assert on_another[0] == "Branch `b2`, from `main` after statement 3:"
    assert on_another[2].endswith("; `b1` branches off here")
    assert on_another[4].endswith("; `main` branches off here")
    assert lines[3].endswith(", ran 2 times, last differed in value)")
    assert lines[4].endswith(", ran 2 times)")


async def test_timeline_lists_statements_by_tag(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell("x = 1  # tag: trailing")
        await session.cell("# tag: set up\n# tag: data\ny = 2")
        await session.cell("z = 3", tags=("set up",))
        listed = (await answer_to(session, "/timeline --tag set up")).splitlines()
        assert [line.partition(".")[0] for line in listed] == ["2", "3"]
        assert listed[0].startswith("2. `y = 2` (ok, ")
        assert listed[0].endswith(", tags `set up`, `data`)")
        assert listed[1].endswith(", tag `set up`)")
        assert await answer_to(session, "/timeline --tag trailing") == no_tagged_statement("trailing")
        assert TAG_RULE in await answer_to(session, "/timeline --tag")


DIFFERS = "import os; n = os.urandom(4).hex(); print('run', n); n"
"""Has another value and output each time."""


async def test_timeline_shows_one_execution(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell(DIFFERS)
        alone = await answer_to(session, "/timeline 1")
        await session.replay(1, mode="live")
        await session.replay(1, mode="recorded")
        all_of_it = await answer_to(session, "/timeline 1")
        first, second, _, fourth = [await answer_to(session, f"/timeline 1.{number}") for number in (1, 2, 3, 4)]
        one, two, _ = [each.finished.value for each in session.cells[0].executions if each.finished is not None]
    assert "1.1" not in alone
    listed = [line for line in all_of_it.splitlines() if line.startswith("- 1.")]
    assert [line.split()[1] for line in listed] == ["1.1", "1.2", "1.3"]
    assert "(live replay, ok, " in listed[1]
    assert listed[1].endswith(", differed in stdout, value, names, current)")
    assert "(recorded replay, ok, " in listed[2]
    assert "current" not in listed[0] + listed[2]
    assert first.startswith("1.1 (ok, ")
    assert first.endswith(f"\n```\nrun {str(one)[1:-1]}\n{one}\n```")
    assert f"\nrun {str(two)[1:-1]}\n{two}\n" in second
    assert "Differences from execution 1.1:\n\n- stdout: " in second
    assert f"{two} instead of {one}" in second
    assert fourth == "Statement 1 has no execution 4; it ran 3 times."


async def test_execution_is_compared_with_the_one_before(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell(DIFFERS)
        for mode in ("recorded", "live"):
            await session.replay(1, mode=mode)
        first, second, third = session.cells[0].executions
        shown = await answer_to(session, "/timeline 1.3")
    assert third.started.against == first.started.execution_id
    assert second.finished is not None
    assert third.finished is not None
    assert f"{third.finished.value} instead of {second.finished.value}" in shown


async def test_equal_execution_has_no_differences(tmp_path: Path) -> None:
    async with sessions_of(tmp_path) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.cell("1")
        await session.replay(1)
        assert (await answer_to(session, "/timeline 1.2")).endswith("\n\nDifferences from execution 1.1: none.")
