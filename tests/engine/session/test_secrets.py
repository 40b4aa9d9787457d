"""What becomes of a secret in a session: statements get it as it is, and nothing else does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine import PermissionAnswer, Session
from engine.core.clock import SystemClock
from engine.log.events.codec import encode
from engine.log.events.execution import EffectAnswered, ExecutionFinished, StatementRecorded
from engine.log.events.session import EnvironmentRestored
from engine.log.permissions import StatementSubject
from engine.log.store.memory import MemoryStore
from tests.support.permissions import FixedPermissions
from tests.support.sessions import events_of, session_in

pytestmark = pytest.mark.anyio

SECRET = "k3y-of 'mine'\n" + 'and a "second" line\\' * 12
WORD = "second"


def is_in(text: str) -> bool:
    """Whether half of the secret is in a text. Less may stay beside a cut."""
    return text.count(WORD) >= SECRET.count(WORD) / 2


async def run(session: Session, text: str) -> str:
    return (await session.accept(text).end()).cause


def values(session: Session) -> list[str | None]:
    return [event.value for event in events_of(session, ExecutionFinished)]


def recorded(session: Session) -> str:
    return "".join(encode(event).decode() for event in session.events)


async def test_typed_secret_runs_and_is_not_recorded(tmp_path: Path) -> None:
    async with session_in(tmp_path, A_TOKEN=SECRET) as session:
        await run(session, f"key = {SECRET!r}\nlen(key)")
        assert values(session) == [str(len(SECRET))]
        await run(session, "open('made.txt', 'w').write(key)")
        assert (tmp_path / "made.txt").read_text() == SECRET
        (first, second) = events_of(session, StatementRecorded)
        assert isinstance(first, StatementRecorded)
        assert isinstance(second, StatementRecorded)
        assert first.withheld
        assert not second.withheld
        assert not is_in(recorded(session))


async def test_statement_with_a_secret_does_not_rerun(tmp_path: Path) -> None:
    store = MemoryStore(SystemClock())
    async with session_in(tmp_path, store, A_TOKEN=SECRET) as session:
        await run(session, f"key = {SECRET!r}")
        await run(session, "other = 41")
    async with session_in(tmp_path, store, load=session.session_id, A_TOKEN=SECRET) as session:
        await run(session, "other + 1, 'key' in globals()")
        assert values(session)[-1] == "(42, False)"
        (restored,) = events_of(session, EnvironmentRestored)
        assert isinstance(restored, EnvironmentRestored)
        assert restored.executions == 1
        (said,) = restored.divergences
        assert said.startswith("<statement 1> had a secret in its source, which is not saved, so it was not run again;")


async def test_answer_with_a_secret_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"key={SECRET}")
    (tmp_path / "b.txt").write_text("harmless")
    store = MemoryStore(SystemClock())
    async with session_in(tmp_path, store, A_TOKEN=SECRET) as session:
        await run(session, "before = 1; text = read('a.txt'); after = 2")
        await run(session, f"len(text) == {len(SECRET) + 4}, len(read('b.txt'))")
        assert values(session)[-1] == "(True, 8)"
        answers = events_of(session, EffectAnswered)
        assert [(event.result is None, bool(event.withheld)) for event in answers] == [(True, True), (False, False)]
        contents = [store.blob_get(digest) for digest in store.contents(session.session_id)]
        assert not any(is_in(content.decode()) for content in contents)
        assert not is_in(recorded(session))
    async with session_in(tmp_path, store, load=session.session_id, A_TOKEN=SECRET) as session:
        await run(session, "before, 'text' in globals(), 'after' in globals()")
        assert values(session)[-1] == "(1, False, True)"
        (restored,) = events_of(session, EnvironmentRestored)
        assert isinstance(restored, EnvironmentRestored)
        assert "<statement 1> called read, whose answer contained a secret and was not saved" in restored.divergences
        lost = "no copy of text (its copy contained a secret and was not saved)"
        assert any(lost in sentence for sentence in restored.divergences)


async def test_question_hides_a_secret_and_the_statement_runs_unchanged(tmp_path: Path) -> None:
    script = tmp_path / "replies.jsonl"
    secret = "k3y-of-mine-and-more"
    script.write_text("\n".join(map(json.dumps, ({"statement": f"# {secret[:12]}\nlen({secret!r})"}, {"text": "."}))))
    user = FixedPermissions([PermissionAnswer(outcome="allowed")])
    secrets = {"A_TOKEN": secret, "B_TOKEN": secret[:12]}
    async with session_in(tmp_path, settings={"model": f"scripted:{script}"}, **secrets) as session:
        session.attach(user)
        assert await run(session, "go") == "end_turn"
    (question,) = user.questions
    assert question.subject == StatementSubject("# ***\nlen('***')")
    assert values(session) == [str(len(secret))]


@pytest.mark.parametrize(
    "word", ["statement", "completed", "tool_call_id", '"kind":"', "end_turn", "direct", "agent_text"]
)
async def test_a_secret_that_is_a_word_of_ours_breaks_nothing(tmp_path: Path, word: str) -> None:
    store = MemoryStore(SystemClock())
    async with session_in(tmp_path, store, SECRET_KEY=word) as session:
        assert await run(session, "x = 41") == "end_turn"
        assert await run(session, f"print({word!r}); x + 1") == "end_turn"
        assert values(session) == [None, "42"]
    async with session_in(tmp_path, store, load=session.session_id, SECRET_KEY=word) as session:
        assert await run(session, "x + 2") == "end_turn"
        assert values(session)[-1] == "43"


async def test_model_reads_handles_without_secrets_and_exact_counts(tmp_path: Path) -> None:
    name = "a-secret-file-name.txt"
    (tmp_path / name).write_text("text")
    async with session_in(tmp_path, A_TOKEN=name) as session:
        await run(session, "import glob; handle = view(glob.glob('a-*')[0])")
        hidden = await session.projection()
    async with session_in(tmp_path) as session:
        await run(session, "import glob; handle = view(glob.glob('a-*')[0])")
        shown = await session.projection()
    assert name in shown.prompt.tail
    assert hidden.prompt.tail == shown.prompt.tail.replace(name, "***")
    assert [row.title for row in hidden.handles] == ["***"]
    assert hidden.tail_tokens < shown.tail_tokens


async def test_secret_recorded_before_it_was_known_reaches_no_model(tmp_path: Path) -> None:
    store = MemoryStore(SystemClock())
    async with session_in(tmp_path, store) as session:
        await run(session, f"key = {SECRET!r}\nprint(key)")
        assert is_in(recorded(session))
    async with session_in(tmp_path, store, load=session.session_id, A_TOKEN=SECRET) as session:
        projection = await session.projection()
        assert len(projection.prompt.messages) > 1
        assert not is_in(str(projection.prompt))
        await run(session, f"len(key) == {len(SECRET)}")
        assert values(session)[-1] == "True"
