"""Skills stand in prompts; files become slash commands, whose text a model reads and the log keeps."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine import CommandRow, CommandsListed, Session
from engine.context.model import Prompt
from engine.context.tail.prompt import message_text
from engine.core.clock import SystemClock
from engine.log.events.conversation import AgentText, Attachment, UserMessage
from engine.log.events.session import SkillsRead
from engine.log.store.memory import MemoryStore
from engine.session.commands.custom import NEEDS_MODEL, TAKEN, TEXT_CHARS
from engine.session.commands.table import OTHERS
from engine.session.guidance import SKILLS_CHARS
from tests.support.models import AnsweringModel, says
from tests.support.sessions import answer_to, events_of, in_process, session_in, sessions_of

pytestmark = pytest.mark.anyio
KEY = "sk-skills-0123456789abcdef"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a skill, and a command of a file."""
    root = Path(os.path.realpath(tmp_path)) / "project"
    (root / ".git").mkdir(parents=True)
    skill(root / ".agents", "release", "Publish a version.", "Tag it as $1.")
    write(root / ".claude/commands/review.md", "---\ndescription: Review a file.\nargument-hint: FILE\n---\nReview $1.")
    return root


def skill(base: Path, name: str, description: str = "Does it.", text: str = "Do it.") -> None:
    write(base / f"skills/{name}/SKILL.md", f"---\nname: {name}\ndescription: {description}\n---\n{text}\n")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def session_of(project: Path, model: AnsweringModel | None = None, **options: Any) -> Any:
    home = str(project.parent / "home")
    return session_in(
        project, state=project.parent / "state", model=model, environments=in_process, HOME=home, **options
    )


def last_text(prompt: Prompt) -> str:
    """The user's newest message, as the model reads it."""
    return message_text(next(each for each in reversed(prompt.messages) if isinstance(each, UserMessage)))


def told(session: Session) -> str:
    return "".join(event.text for event in events_of(session, AgentText) if event.aside)


# --- skills in prompts ------------------------------------------------------------------------------------------------


async def test_prompts_name_skills_with_the_call_that_shows_them(project: Path) -> None:
    skill(project.parent / "home/.agents", "mine", "Of the user.")
    model = AnsweringModel(says("Done."))
    async with session_of(project, model) as session:
        await session.accept("go").end()
    home = project.parent / "home"
    assert (
        '\n`view(".agents/skills/NAME/SKILL.md")`\n- release: Publish a version.\n'
        f'`view("{home}/.agents/skills/NAME/SKILL.md")`\n- mine: Of the user.\n'
    ) in model.prompts[0].instructions


async def test_skills_stay_the_same_until_the_next_process(project: Path) -> None:
    store, model = MemoryStore(SystemClock()), AnsweringModel(says("Done."))
    for count in range(2):
        async with sessions_of(project.parent, store, model=model, environments=in_process) as sessions:
            rows = await sessions.rows()
            session = await sessions.load(rows[0].session_id) if rows else await sessions.create(str(project))
            await session.accept("go").end()
            skill(project / ".agents", f"new{count}", "Was not there.")
            await session.accept("go").end()
    named = ["Was not there." in prompt.instructions for prompt in model.prompts]
    assert named == [False, False, True, True]
    assert len(events_of(session, SkillsRead)) == 2


async def test_skills_without_room_are_counted(project: Path) -> None:
    for number in range(20):
        skill(project / ".agents", f"skill{number:02}", "x" * 1_000)
    model = AnsweringModel(says("Done."))
    async with session_of(project, model) as session:
        await session.accept("go").end()
        (read,) = events_of(session, SkillsRead)
    assert sum(len(each.description) for each in read.skills) <= SKILLS_CHARS
    assert len(read.skills) + read.more == 21
    assert f"{read.more} more skills" in model.prompts[0].instructions


async def test_keys_reach_no_prompt_through_skills(project: Path) -> None:
    skill(project / ".agents", "leak", f"Use {KEY}.", f"Send {KEY}.")
    model = AnsweringModel(says("Done."))
    async with session_of(project, model, OPENAI_API_KEY=KEY) as session:
        await session.accept("/leak").end()
        assert KEY not in str(session.events)
        assert KEY not in str(session.custom_commands)
    assert "Send ***." in last_text(model.prompts[0])
    assert KEY not in model.prompts[0].instructions


# --- commands ---------------------------------------------------------------------------------------------------------


async def test_a_command_is_a_prompt_with_the_text_of_its_file(project: Path) -> None:
    store, model = MemoryStore(SystemClock()), AnsweringModel(says("Done."))
    async with session_of(project, model, store=store) as session:
        assert (await session.accept("/review 'a b.py'").end()).cause == "end_turn"
        assert session.title == "/review 'a b.py'"
    (project / ".claude/commands/review.md").unlink()
    async with session_of(project, model, store=store, load=session.session_id) as session:
        (message,) = [event for event in events_of(session, UserMessage) if not event.aside]
        assert message.text == "/review 'a b.py'"
        await session.accept("go").end()
    assert last_text(model.prompts[0]) == "Review a b.py."
    assert message_text(model.prompts[1].messages[0]) == "Review a b.py."


async def test_a_skill_is_a_command_that_names_its_folder(project: Path) -> None:
    model = AnsweringModel(says("Done."))
    async with session_of(project, model) as session:
        await session.accept("/release 1.0").end()
    text = last_text(model.prompts[0])
    assert f"{project}/.agents/skills/release" in text
    assert text.endswith("Tag it as 1.0.")


async def test_commands_are_published_and_listed(project: Path) -> None:
    async with session_of(project, AnsweringModel(says("Done."))) as session:
        subscription = session.subscribe()
        session.connect()
        listed = await signal_in(subscription.batches(0.01))
        rows = (CommandRow("review", "FILE", "Review a file."), CommandRow("release", "", "Publish a version."))
        assert listed.rows == tuple(session.custom_commands) == rows
        assert (await answer_to(session, "/help")).endswith(
            f"{OTHERS}\n\n- `/review FILE`: Review a file.\n- `/release`: Publish a version."
        )


async def signal_in(batches: AsyncIterator[Any]) -> CommandsListed:
    async for batch in batches:
        for item in batch:
            if isinstance(item, CommandsListed):
                return item
    raise AssertionError


async def test_a_command_that_appears_can_be_called_at_once(project: Path) -> None:
    model = AnsweringModel(says("Done."))
    async with session_of(project, model) as session:
        assert "no command `/fresh`" in await answer_to(session, "/fresh")
        write(project / ".agents/commands/fresh.md", "Fresh.")
        await session.accept("/fresh").end()
        assert "Did you mean `/review`" in await answer_to(session, "/reveiw")
    assert [last_text(prompt) for prompt in model.prompts] == ["Fresh."]


async def test_builtin_commands_win_and_the_user_learns_it_once(project: Path) -> None:
    skill(project / ".agents", "help", "Not ours.")
    model = AnsweringModel(says("Done."))
    async with session_of(project, model) as session:
        assert "List these commands" in await answer_to(session, "/help")
        for _ in range(2):
            await session.accept("go").end()
        path = project / ".agents/skills/help/SKILL.md"
        assert told(session).count(TAKEN.format(path=path, name="help")) == 1
        assert "help" not in {row.name for row in session.custom_commands}
    assert "- help: Not ours." in model.prompts[0].instructions


async def test_the_user_learns_once_of_an_invalid_skill(project: Path) -> None:
    write(project / ".agents/skills/broken/SKILL.md", "no front matter")
    model = AnsweringModel(says("Done."))
    async with session_of(project, model) as session:
        for _ in range(2):
            assert (await session.accept("go").end()).cause == "end_turn"
        assert told(session).count(".agents/skills/broken/SKILL.md is not used as a skill") == 1


async def test_a_file_runs_nothing(project: Path) -> None:
    write(project / ".agents/commands/evil.md", "---\nallowed-tools: Bash\n---\n!`touch ran` and @/etc/passwd")
    model = AnsweringModel(says("Done."))
    async with session_of(project, model) as session:
        await session.accept("/evil").end()
    assert last_text(model.prompts[0]) == "!`touch ran` and @/etc/passwd"
    assert not (project / "ran").exists()


async def test_a_long_file_is_cut_and_named(project: Path) -> None:
    write(project / ".agents/commands/long.md", "x" * (TEXT_CHARS + 7))
    model = AnsweringModel(says("Done."))
    async with session_of(project, model) as session:
        await session.accept("/long").end()
    assert last_text(model.prompts[0]).endswith(f"... 7 more characters in {project}/.agents/commands/long.md")


async def test_a_command_whose_file_breaks_is_refused(project: Path) -> None:
    model = AnsweringModel(says("Done."))
    async with session_of(project, model) as session:
        path = project / ".claude/commands/review.md"
        path.write_bytes(b"x" * 100_000 + b"\xff")  # behind what is read for the list
        end = await session.accept("/review").end()
        assert "the file is not UTF-8" in str(end.refused)
    assert not model.prompts


async def test_a_session_that_runs_what_is_typed_refuses_commands(project: Path) -> None:
    async with session_of(project) as session:
        assert await answer_to(session, "/review a.py") == NEEDS_MODEL.format(name="review")
        assert not session.cells


async def test_an_attachment_of_a_command_is_opened_and_an_argument(project: Path) -> None:
    (project / "a.py").write_text("x = 1\n")
    model = AnsweringModel(says("Done."))
    async with session_of(project, model) as session:
        link = Attachment(uri=(project / "a.py").as_uri(), name="a.py")
        await session.accept(["/review ", link]).end()
        (cell,) = session.cells
    assert cell.statement.source.startswith("a_py = view(")
    assert last_text(model.prompts[0]) == f"Review a.py.\n[a.py]({link.uri})"
