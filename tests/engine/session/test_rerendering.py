"""Results whose handles have another policy: when they are rendered anew, what the log has of it, what a call reads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.context.model import ModelSignal, Prompt, StatementAsked, TextDelta
from engine.context.tail.prompt import Account
from engine.context.tail.sent_prompts import SentProjections, prompt_of
from engine.core.clock import SystemClock
from engine.log.events.conversation import ResultRerendered, ToolResult
from engine.log.store.memory import MemoryStore
from engine.session.session import Session
from tests.support.models import AnsweringModel
from tests.support.sessions import events_of, session_in, sessions_of
from tests.support.timelines import timeline_of

pytestmark = pytest.mark.anyio

LINES = "''.join(f'line {n} of the text\\n' for n in range(300))"
PAGE = f"a = view(text={LINES}, title='lines', tokens=1500)"


class Played:
    """A session whose model runs what `sources` hold, one statement a call, then says that it is done."""

    def __init__(self, tmp_path: Path, rule: str = "economic", budget: int = 50_000) -> None:
        self.sources: list[str] = []
        self.model = AnsweringModel(self._answer)
        self.store = MemoryStore(SystemClock())
        self.settings: dict[str, object] = {"projection_rerender": rule, "context_budget": budget}
        self.path = tmp_path

    def _answer(self, _: Prompt) -> Sequence[ModelSignal]:
        return [StatementAsked(self.sources.pop(0), typed=True)] if self.sources else [TextDelta("Done.")]

    async def play(self, session: Session, *sources: str) -> list[Prompt]:
        """One prompt, to which the model answers with these; what it read."""
        self.sources += sources
        before = len(self.model.prompts)
        await session.accept("go").end()
        return self.model.prompts[before:]

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Session]:
        async with sessions_of(self.path, self.store, model=self.model, settings=self.settings) as sessions:
            yield await sessions.create(str(self.path))


def results(prompt: Prompt) -> list[str]:
    return [message.text for message in prompt.messages if isinstance(message, ToolResult)]


def rerendered(session: Session) -> list[ResultRerendered]:
    return events_of(session, ResultRerendered)


async def test_smaller_view_takes_less_of_the_next_call(tmp_path: Path) -> None:
    played = Played(tmp_path)
    async with played.opened() as session:
        _, shown, less, _ = await played.play(session, PAGE, "a.SetTokens(40)", "1")
    assert "line 100 of" in results(shown)[0]
    assert "line 100 of" not in results(less)[0]
    effective = f"# {PAGE}  # statement 1, until statement 2\n{PAGE.replace('1500', '40')}\n"
    assert results(less)[0].startswith(f"{effective}[lines]\n1\tline 0 of the text\n")
    (event,) = rerendered(session)
    assert event.text == results(less)[0]
    assert (event.statement, [each.tokens <= 40 for each in event.displays]) == (1, [True])
    timeline = timeline_of(session.events)
    first, second = (Account(timeline), Account(timeline))
    for each in session.events:
        second.apply(each)
        if each != event:
            first.apply(each)
    messages = played.model.prompts[2].messages
    assert sum(second.nodes(messages, lambda _: 10_000, {}).values()) <= 40
    assert sum(first.nodes(messages, lambda _: 10_000, {}).values()) > 1_000


async def test_rewrite_waits_if_much_follows_the_result(tmp_path: Path) -> None:
    played = Played(tmp_path)
    async with played.opened() as session:
        *_, last = await played.play(session, PAGE, *(["print('word ' * 1_000)"] * 9), "a.SetTokens(40)", "1")
        assert rerendered(session) == []
        assert "line 100 of" in results(last)[0]
        # The handle's next budget is what counts in the end, and a condensation breaks the prefix.
        played.sources += ["a.SetTokens(900)"]
        await played.play(session)
        assert rerendered(session) == []


@pytest.mark.parametrize(("rule", "expected"), [("immediate", 1), ("never", 0)])
async def test_the_rule_decides(tmp_path: Path, rule: str, expected: int) -> None:
    played = Played(tmp_path, rule)
    async with played.opened() as session:
        *_, last = await played.play(session, PAGE, *(["print('word ' * 1_000)"] * 9), "a.SetTokens(40)", "1")
        assert len(rerendered(session)) == expected
        assert ("line 100 of" in results(last)[0]) == (not expected)
        *_, last = await played.play(session, "b = view(text='short', title='b')", "b.SetLod(1)", "1")
        assert len(rerendered(session)) == 2 * expected


@pytest.mark.slow
async def test_oversized_conversation_is_rerendered_before_it_is_condensed(tmp_path: Path) -> None:
    played = Played(tmp_path, budget=8_800)
    async with played.opened() as session:
        page, words = PAGE.replace("1500", "350"), "print('word ' * 280)"
        await played.play(session, page, *([words] * 6), "a.SetTokens(40)", "1")
        assert rerendered(session) == []
        for _ in range(20):
            await played.play(session, words)
            if rerendered(session):
                break
        assert "condensation" not in [event.kind for event in session.events]
        assert "line 20 of" not in results(played.model.prompts[-1])[0]
        assert len(rerendered(session)) == 1


async def test_every_prompt_is_restored_from_the_log_across_renders(tmp_path: Path) -> None:
    played = Played(tmp_path)
    async with sessions_of(tmp_path, played.store, model=played.model, settings=played.settings) as sessions:
        session = await sessions.create(str(tmp_path))
        await played.play(
            session, PAGE, "a.SetTokens(40)", "a.SetTokens(1200); b = view(text='b' * 99, title='b')", "2"
        )
        await played.play(session, "b.SetPos(3); a.SetLod(2)", "del a", "/compact")
        await session.accept("/compact").end()
        await played.play(session, "c = 1")
        assert len(rerendered(session)) >= 2
        await sessions.close(session.session_id)
        session = await sessions.load(session.session_id)
        await played.play(session, "b.SetTokens(5)", "3")
    sent = SentProjections()
    for event in session.events:
        sent.apply(event)
    made = [prompt_of(call, sent.messages_of(call), session.events, played.store.blob_get) for call in sent.calls]
    assert made == [replace(prompt, typed=None) for prompt in played.model.prompts]
    assert len({tuple(results(prompt)[:1]) for prompt in made}) >= 3


async def test_look_shows_the_next_call_and_changes_nothing(tmp_path: Path) -> None:
    played = Played(tmp_path)
    async with played.opened() as session:
        await played.play(session, PAGE)
        full = await session.projection()
        await session.cell("a.SetTokens(40)")
        for _ in range(2):
            less = await session.projection()
        assert rerendered(session) == []
        assert less.message_tokens < full.message_tokens - 1_000
        await session.cell("a.SetTokens(90)")
        more = await session.projection()
        assert less.message_tokens < more.message_tokens < full.message_tokens
        (prompt,) = await played.play(session)
    assert results(prompt) == results(more.prompt)
    assert results(prompt) != results(less.prompt)


async def test_only_the_last_result_shows_a_handle_shown_often(tmp_path: Path) -> None:
    played = Played(tmp_path, "immediate")
    async with played.opened() as session:
        *_, last = await played.play(session, PAGE, "show(a)", "show(a, tokens=60)", "a.SetTokens(40)", "1")
        first, again, given, *_ = results(last)
        assert first == "[lines]\n(shown again by statement 2)"
        assert again.startswith("[lines]\n1\tline 0 of")
        assert "line 100 of" not in again
        assert given.startswith("[lines]\n1\tline 0 of"), "what show was given a budget for is as it was asked for"
        assert len(given) > len(again)
        *_, last = await played.play(session, "show(a.SetLod(1))", "1")
        assert results(last)[1] == "[lines]\n(shown again by statement 6)"


@pytest.mark.slow
async def test_differences_and_deleted_handles_are_not_rerendered(tmp_path: Path) -> None:
    played = Played(tmp_path, "immediate")
    async with played.opened() as session:
        await played.play(session, PAGE, "a.SetLod(3)", "a.SetLod(0).SetTokens(30); del a", "1")
        assert rerendered(session) == []


async def test_what_a_statement_gave_besides_stays_and_other_handles_too(tmp_path: Path) -> None:
    played = Played(tmp_path, "immediate")
    async with played.opened() as session:
        source = f"print('printed'); {PAGE}; b = view(text='of b', title='b'); 6 * 7"
        *_, last = await played.play(session, source, "a.SetTokens(40)", "1")
        text = results(last)[0]
    effective = f"# {PAGE}  # statement 1, until statement 2\n{PAGE.replace('1500', '40')}\n"
    assert text.startswith(f"{effective}printed\n[lines]\n1\tline 0")
    assert text.endswith("[b]\n1\tof b\n42")
    assert len(text) < 450


async def test_secrets_in_what_is_rendered_anew_are_taken_out(tmp_path: Path) -> None:
    played = Played(tmp_path, "immediate")
    secret = "hunter2hunter2"
    async with session_in(
        tmp_path, played.store, model=played.model, settings=played.settings, MY_TOKEN=secret
    ) as session:
        source = f"a = view(text='x\\n' * 200 + '{secret[:7]}' + '{secret[7:]}\\n', title='s', pos='201', tokens=50)"
        *_, last = await played.play(session, source, "a.SetTokens(20)", "1")
        assert secret not in str(session.events)
        assert "***" in results(last)[0]
        events = len(rerendered(session))
        await played.play(session, "2")
        assert len(rerendered(session)) == events <= 1
