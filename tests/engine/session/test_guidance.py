"""Prompts have the project's instructions for agents: at their beginning, and changes once in the feed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.context.tail.prompt import ProjectNotes, instructions
from engine.core.clock import SystemClock
from engine.files.guidance import LEFT_OUT, TOTAL_CHARS
from engine.log.events.session import GuidanceChanged, GuidanceRead, SurroundingsRead
from engine.log.store.memory import MemoryStore
from tests.support.models import AnsweringModel, runs, says
from tests.support.sessions import events_of, session_in, sessions_of

pytestmark = pytest.mark.anyio
KEY = "sk-guidance-0123456789abcdef"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with an `AGENTS.md`."""
    root = Path(os.path.realpath(tmp_path)) / "project"
    (root / ".git").mkdir(parents=True)
    (root / "AGENTS.md").write_text("Write tests first.\nRun make check.\n")
    return root


async def test_prompts_begin_with_the_files_and_tell_a_change_once(tmp_path: Path, project: Path) -> None:
    model = AnsweringModel(says("Done."))
    async with session_in(project, state=tmp_path, model=model) as session:
        for text in (None, None, "Write tests last.\nRun make check.\n", None):
            if text is not None:
                (project / "AGENTS.md").write_text(text)
            assert (await session.accept("go").end()).cause == "end_turn"
    first, second, changed, later = model.prompts
    assert first.instructions.startswith(instructions(str(project)))
    assert first.instructions.endswith("\n# AGENTS.md\n\nWrite tests first.\nRun make check.\n")
    assert {prompt.instructions for prompt in model.prompts} == {first.instructions}
    assert "-Write tests first.\n+Write tests last." in changed.tail
    assert all("Write tests last" not in prompt.tail for prompt in (second, later))


async def test_changes_are_at_the_beginning_after_a_load(tmp_path: Path, project: Path) -> None:
    store, model = MemoryStore(SystemClock()), AnsweringModel(says("Done."))
    for text in ("Write tests first.", "Write tests last."):
        (project / "AGENTS.md").write_text(text)
        async with sessions_of(tmp_path, store, model=model) as sessions:
            rows = await sessions.rows()
            session = await sessions.load(rows[0].session_id) if rows else await sessions.create(str(project))
            await session.accept("go").end()
            assert not events_of(session, GuidanceChanged)
    assert [prompt.instructions.rpartition("\n\n")[2] for prompt in model.prompts] == [
        "Write tests first.\n",
        "Write tests last.\n",
    ]


async def test_files_further_down_are_told_when_something_there_is_used(tmp_path: Path, project: Path) -> None:
    (project / "web").mkdir()
    (project / "web/CLAUDE.md").write_text("Use tabs.")
    (project / "web/page.py").write_text("x = 1\n")
    model = AnsweringModel(runs("page = view('web/page.py')", "page.SetLod(1)"))
    async with session_in(project, state=tmp_path, model=model) as session:
        await session.accept("go").end()
    first, second, third = model.prompts
    assert "Use tabs." not in first.instructions + first.tail + second.instructions + third.tail
    assert "web/CLAUDE.md has instructions for agents. They apply from now on:\nUse tabs." in second.tail


async def test_prompts_have_what_was_told_before_a_rewind(tmp_path: Path, project: Path) -> None:
    write(project / "web/CLAUDE.md", "Use tabs.")
    write(project / "web/page.py", "x = 1\n")
    model = AnsweringModel(runs("1", "view('web/page.py')", "view('web/page.py')"))
    async with session_in(project, state=tmp_path, model=model) as session:
        await session.accept("one").end()
        await session.accept("go").end()
        (project / "AGENTS.md").write_text("Write tests last.")
        await session.accept("go on").end()
        assert {event.path for event in events_of(session, GuidanceChanged)} == {
            str(project / "AGENTS.md"),
            str(project / "web/CLAUDE.md"),
        }
        await session.rewind(1)
        sent = len(model.prompts)
        await session.accept("again").end()
    for prompt in model.prompts[sent:]:
        assert "Write tests last." in prompt.instructions
        assert "Use tabs." in prompt.instructions


async def test_equal_files_further_down_are_not_told(tmp_path: Path, project: Path) -> None:
    write(project / "web/CLAUDE.md", (project / "AGENTS.md").read_text())
    write(project / "web/page.py", "x = 1\n")
    model = AnsweringModel(runs("view('web/page.py')"))
    async with session_in(project, state=tmp_path, model=model) as session:
        await session.accept("go").end()
        assert not events_of(session, GuidanceChanged)


async def test_a_session_without_such_files_reads_nothing_of_them(tmp_path: Path) -> None:
    model = AnsweringModel(says("Done."))
    async with session_in(tmp_path, model=model) as session:
        await session.accept("go").end()
        assert not [event for event in session.events if isinstance(event, GuidanceRead | GuidanceChanged)]
        (read,) = events_of(session, SurroundingsRead)
    assert model.prompts[0].instructions == instructions(str(tmp_path), notes=ProjectNotes(read.text))


async def test_prompts_keep_the_surroundings_of_the_beginning(tmp_path: Path, project: Path) -> None:
    store, model = MemoryStore(SystemClock()), AnsweringModel(says("Done."))
    for head in ("first", "second"):
        (project / ".git/HEAD").write_text(f"ref: refs/heads/{head}\n")
        async with sessions_of(tmp_path, store, model=model) as sessions:
            rows = await sessions.rows()
            session = await sessions.load(rows[0].session_id) if rows else await sessions.create(str(project))
            await session.accept("go").end()
    first, loaded = model.prompts
    assert "\n- git: branch first\n" in first.instructions
    assert loaded.instructions == first.instructions


async def test_a_session_that_moves_has_other_surroundings(tmp_path: Path, project: Path) -> None:
    store, model = MemoryStore(SystemClock()), AnsweringModel(says("Done."))
    (project / ".git/HEAD").write_text("ref: refs/heads/first\n")
    elsewhere = project.parent / "elsewhere"
    elsewhere.mkdir()
    async with sessions_of(tmp_path, store, model=model) as sessions:
        session = await sessions.create(str(project))
        await session.accept("go").end()
        await sessions.close(session.session_id)
        moved = await sessions.load(session.session_id, str(elsewhere))
        await moved.accept("go").end()
    assert ["branch first" in prompt.instructions for prompt in model.prompts] == [True, False]


async def test_keys_reach_no_prompt_through_guidance_files(tmp_path: Path, project: Path) -> None:
    (project / "AGENTS.md").write_text(f"The key is {KEY}.")
    model = AnsweringModel(says("Done."))
    async with session_in(project, state=tmp_path, model=model, OPENAI_API_KEY=KEY) as session:
        for _ in range(2):
            await session.accept("go").end()
    assert "The key is ***." in model.prompts[0].instructions
    assert all(KEY not in prompt.instructions + prompt.tail for prompt in model.prompts)
    assert model.prompts[0].instructions == model.prompts[1].instructions


async def test_files_that_do_not_fit_together_are_named(tmp_path: Path, project: Path) -> None:
    for number in range(4):
        write(project / f"part{number}/AGENTS.md", f"Part {number}. " + "word " * 3_000)
        write(project / f"part{number}/page.py", "x = 1\n")
    model = AnsweringModel(runs("for n in range(4): show(view(f'part{n}/page.py'))"))
    async with session_in(project, state=tmp_path, model=model) as session:
        await session.accept("go").end()
        told = events_of(session, GuidanceChanged)
    assert [event.text == LEFT_OUT for event in told] == [False, False, True, True]
    assert sum(len(event.text) for event in told) <= TOTAL_CHARS


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
