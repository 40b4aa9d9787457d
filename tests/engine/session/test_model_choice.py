"""A session's model is chosen, and changes between two calls."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from engine.context.models import make_model
from engine.context.models.catalog import Catalog
from engine.context.models.providers import NAMED, NO_PROVIDER
from engine.core.clock import SystemClock
from engine.core.errors import InvalidRequestError
from engine.core.settings import SERVED
from engine.log.events.conversation import AgentText, RunStop
from engine.log.events.session import ConfigChanged, ModelCallEnded, ProjectionSent
from engine.log.store.memory import MemoryStore
from engine.session.commands.context import NO_LEVEL, NO_LEVELS, NO_MODEL
from engine.session.model_calls.projector import Room
from engine.session.model_choice import THINKING_LEVELS
from engine.session.session import Session
from tests.support.llm_answers import anthropic, chat
from tests.support.llm_server import Answer, LlmServer, chunk, llm_server_in_environment, sse
from tests.support.models import AnsweringModel, Reads, says
from tests.support.sessions import answer_to, events_of, session_in, sessions_of

pytestmark = pytest.mark.anyio
CHAT, CLAUDE = "provider:openai:gpt-x", "provider:anthropic:claude-opus-5-5"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LlmServer]:
    with llm_server_in_environment(monkeypatch) as server:
        yield server


@asynccontextmanager
async def chatting(tmp_path: Path, server: LlmServer, store: MemoryStore | None = None) -> AsyncIterator[Session]:
    settings: dict[str, object] = {"model": CHAT, "sandbox": "off"}
    async with session_in(tmp_path, store, settings=settings, **server.environment()) as session:
        yield session


def values(session: Session) -> dict[str, str]:
    options = session.options
    return {row.name: options.value(row) for row in options.rows if row.category}


async def test_the_next_call_goes_to_the_chosen_model_and_thinks_as_told(tmp_path: Path, server: LlmServer) -> None:
    server.answers += [chat("one"), anthropic("two"), chat("three")]
    async with chatting(tmp_path, server) as session:
        assert values(session) == {"model": CHAT, "thought_level": "default"}
        for choice in (None, ("model", CLAUDE), ("model", "provider:openai:gpt-y")):
            if choice is not None:
                session.set_option(*choice)
                session.set_option("thought_level", "high")
            assert (await session.accept("go").end()).cause == "end_turn"
    paths = [asked.path for asked in server.asked]
    assert paths == ["/v1/chat/completions", "/v1/messages", "/v1/chat/completions"]
    bodies = [asked.body for asked in server.asked]
    assert [body["model"] for body in bodies] == ["gpt-x", "claude-opus-5-5", "gpt-y"]
    assert "thinking" not in bodies[0]
    assert bodies[1]["thinking"]["type"] == "adaptive"
    assert bodies[1]["output_config"]["effort"] == "high"
    # What the other model said goes on as text.
    assert any("one" in str(message) for message in bodies[1]["messages"] if message["role"] == "assistant")


async def test_a_choice_is_kept(tmp_path: Path, server: LlmServer) -> None:
    store = MemoryStore(SystemClock())
    server.answers.append(anthropic("hi"))
    async with sessions_of(tmp_path, store, settings={"model": CHAT}, **server.environment()) as sessions:
        session = await sessions.create(str(tmp_path))
        session.set_option("model", CLAUDE)
        session.set_option("model", CLAUDE)
        assert [event.value for event in events_of(session, ConfigChanged)] == [CLAUDE]
        await sessions.close(session.session_id)
        session = await sessions.load(session.session_id)
        assert values(session)["model"] == CLAUDE
        await session.accept("go").end()
    assert server.asked[-1].path == "/v1/messages"


async def test_a_kept_model_that_is_gone_fails_prompts_and_nothing_else(tmp_path: Path, server: LlmServer) -> None:
    async with chatting(tmp_path, server) as session:
        session._parts.log.append(ConfigChanged(option="model", value="provider:gone"))
        assert (await session.accept("go").end()).cause == "error"
        assert "provider:openai:MODEL" in str(events_of(session, RunStop)[-1].detail)
        assert (await session.accept("/run 1 + 1").end()).cause == "end_turn"
        session.set_option("model", CHAT)
        server.answers.append(chat("back"))
        assert (await session.accept("go").end()).cause == "end_turn"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", "nope"),
        ("model", "provider:openai"),
        ("model", ""),
        ("thought_level", "much"),
        ("model", "scripted:/x"),
    ],
)
async def test_what_does_not_exist_is_refused(tmp_path: Path, server: LlmServer, name: str, value: str) -> None:
    async with chatting(tmp_path, server) as session:
        with pytest.raises(InvalidRequestError):
            session.set_option(name, value)
        assert values(session)["model"] == CHAT


async def test_an_embedding_programs_model_cannot_be_changed(tmp_path: Path) -> None:
    async with session_in(tmp_path, model=AnsweringModel(says("hi"))) as session:
        assert values(session) == {}
        with pytest.raises(InvalidRequestError):
            session.set_option("model", "direct")
        assert "cannot be changed" in await answer_to(session, "/model direct")


@pytest.mark.parametrize(
    ("typed", "model", "level"),
    [
        ("claude-opus-5-5", CLAUDE, "default"),
        ("anthropic:claude-opus-5-5", CLAUDE, "default"),
        (f"{CLAUDE} max", CLAUDE, "max"),
        ("openai:gpt-y", "provider:openai:gpt-y", "default"),
        ("off", CHAT, "off"),
        ("direct", "direct", None),
    ],
)
async def test_the_command_chooses(
    tmp_path: Path, server: LlmServer, typed: str, model: str, level: str | None
) -> None:
    async with chatting(tmp_path, server) as session:
        answer = await answer_to(session, f"/model {typed}")
        assert values(session) == {"model": model} | ({} if level is None else {"thought_level": level})
        assert f"`{model}`" in answer
        listed = await answer_to(session, "/model")
        assert listed.startswith(f"`{model}` answers")
        assert f"- `{CLAUDE}`" in listed


async def test_a_wrong_name_changes_nothing(tmp_path: Path, server: LlmServer) -> None:
    async with chatting(tmp_path, server) as session:
        assert "`/model` lists the models." in await answer_to(session, "/model nope")
        assert values(session)["model"] == CHAT


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        ("qwen3:8b", NO_PROVIDER.format(name="qwen3", names=", ".join(NAMED))),
        ("antropic:claude", NO_PROVIDER.format(name="antropic", names=", ".join(NAMED))),
        ("provider:../x:m", NO_PROVIDER.format(name="../x", names=", ".join(NAMED))),
        ("gpt-5", NO_MODEL.format(name="gpt-5")),
    ],
)
async def test_a_model_of_no_provider_is_refused(tmp_path: Path, server: LlmServer, typed: str, reason: str) -> None:
    async with chatting(tmp_path, server) as session:
        assert (await answer_to(session, f"/model {typed}")).startswith(reason)
        assert values(session)["model"] == CHAT


@pytest.mark.parametrize("name", ["anthropic", "gemini", "cohere"])
def test_the_user_of_a_server_chooses_providers_with_a_row_or_of_the_server(name: str) -> None:
    given = {SERVED: "1", "REWINDOW_MODELS": "provider:openai:gpt-5, provider:cohere:command"}
    assert _is_made(f"provider:{name}:m", given)


@pytest.mark.parametrize("name", ["bedrock", "google-cloud", "google-vertex", "azure", "cohere"])
def test_the_user_of_a_server_chooses_no_provider_that_reads_the_users_files(name: str) -> None:
    given = {"REWINDOW_MODELS": "provider:openai:gpt-5, scripted:cohere:command"}
    assert _is_made(f"provider:{name}:m", given)
    assert not _is_made(f"provider:{name}:m", {**given, SERVED: "1"})


def _is_made(spec: str, environ: Mapping[str, str]) -> bool:
    try:
        make_model(spec, environ=environ)
    except InvalidRequestError:
        return False
    return True


@pytest.mark.parametrize("name", ["cohere", "moonshotai", "azure-responses", "github-copilot", "gateway/openai"])
async def test_providers_of_the_library_can_be_chosen(tmp_path: Path, server: LlmServer, name: str) -> None:
    async with chatting(tmp_path, server) as session:
        await answer_to(session, f"/model {name}:m")
        assert values(session)["model"] == f"provider:{name}:m"


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        ("claude-opus-5-5 hgh", NO_LEVEL.format(level="hgh", levels=", ".join(THINKING_LEVELS))),
        ("direct high", NO_LEVELS.format(name="direct")),
    ],
)
async def test_a_wrong_level_changes_no_model(tmp_path: Path, server: LlmServer, typed: str, reason: str) -> None:
    async with chatting(tmp_path, server) as session:
        assert (await answer_to(session, f"/model {typed}")).startswith(reason)
        assert not events_of(session, ConfigChanged)


async def test_a_model_without_levels_names_none(tmp_path: Path, server: LlmServer) -> None:
    async with chatting(tmp_path, server) as session:
        await answer_to(session, "/model high")
        assert "thinking" not in await answer_to(session, "/model direct")


async def test_statements_of_a_chosen_model_are_sandboxed(tmp_path: Path, server: LlmServer) -> None:
    settings: dict[str, object] = {"model": "direct", "sandbox": "auto"}
    async with session_in(tmp_path, settings=settings, **server.environment()) as session:
        await session.accept("kept = 7").end()
        session.set_mode("auto")
        session.set_option("model", CLAUDE)
        source = f"r = kept; open({str(tmp_path.parent / 'outside')!r}, 'w').write('x')"
        server.answers += [anthropic("", json.dumps({"source": source})), anthropic("done")]
        await session.accept("go").end()
        failed = [cell.finished and cell.finished.status for cell in session.cells]
    assert failed == ["ok", "error"]
    assert not (tmp_path.parent / "outside").exists()


async def test_prompts_are_written_for_the_model_that_reads_them(tmp_path: Path, server: LlmServer) -> None:
    settings: dict[str, object] = {"model": CHAT, "models_without_tools": ("gpt-y",)}
    server.answers += [chat("one"), chat("two"), chat("three")]
    async with session_in(tmp_path, settings=settings, **server.environment()) as session:
        for model in (CHAT, "provider:openai:gpt-y", CHAT):
            session.set_option("model", model)
            await session.accept("go").end()
        assert [sent.calls_tools for sent in events_of(session, ProjectionSent)] == [True, False, True]
    assert ["tools" in asked.body for asked in server.asked] == [True, False, True]


async def test_prompts_follow_the_window_that_the_provider_or_the_library_names(
    tmp_path: Path, server: LlmServer
) -> None:
    listed = json.dumps({"data": [{"id": "gpt-x", "context_window": 9_000}]}).encode()
    server.lists["/v1/models"] = Answer(pieces=(listed,))
    environ = {name: value for name, value in server.environment().items() if "OPENAI" in name}
    Catalog((), environ, tmp_path).refresh()
    server.answers += [chat("one"), anthropic("two"), anthropic("three")]
    async with chatting(tmp_path, server) as session:
        await session.accept("go").end()
        session.set_option("model", CLAUDE)
        for _ in range(2):
            await session.accept("go").end()
        sizes = [sent.size for sent in events_of(session, ProjectionSent)]
    # The first call of a model is made before its library is loaded.
    assert sizes == [9_000, 128_000, 1_000_000]


def test_room_is_what_a_window_leaves_beside_a_reply() -> None:
    reads = Reads()
    room = Room(128_000, reads)
    assert (room.budget, room.window) == (128_000, None)
    reads.window = 100_000
    assert room.budget == 100_000 - 16_384
    reads.window = 8_000
    assert room.budget == 6_000
    reads.window = 1_000_000
    assert room.budget == 128_000


def test_a_refusal_narrows_and_answers_widen() -> None:
    reads = Reads(window=100_000)
    room = Room(80_000, reads)
    assert not room.narrow(30_000, None)
    assert room.budget == 80_000
    assert room.narrow(60_000, None)
    assert room.budget == 45_000
    room.answered(40_000, 40_000)
    assert room.budget == 80_000
    # By the provider's own count a prompt may be twice as long as by ours.
    room.answered(20_000, 50_000)
    assert room.narrow(21_000, None)
    assert room.budget < 21_000
    reads.spec = "another"
    assert room.budget == 80_000


def test_a_window_that_a_refusal_names_holds() -> None:
    room = Room(80_000, Reads())
    assert room.narrow(5_000, 4_096)
    assert (room.window, room.budget) == (4_096, 3_072)
    for _ in range(9):
        room.answered(3_000, 3_000)
    assert room.budget == 3_072
    assert not room.narrow(1_000, 200_000)
    counts_more = Room(80_000, Reads())
    assert counts_more.narrow(4_000, 4_096)
    assert (counts_more.window, counts_more.budget) == (4_000, 3_000)


async def test_cost_is_added_up_by_model(tmp_path: Path, server: LlmServer) -> None:
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 0, "total_tokens": 1_000_000}
    end = {**chunk("stop"), "usage": usage, "model": "gpt-4o"}
    paid = Answer(pieces=(sse({**chunk(content="hi"), "model": "gpt-4o"}, end, "[DONE]"),))
    server.answers += [paid, paid, anthropic("hi")]
    store = MemoryStore(SystemClock())
    async with chatting(tmp_path, server, store) as session:
        assert await answer_to(session, "/cost") == "No model has been called in this session."
        for model in ("provider:openai:gpt-4o", "provider:openai:gpt-4o", CLAUDE):
            session.set_option("model", model)
            await session.accept("go").end()
        answer = await answer_to(session, "/cost")
        assert session.spent.calls == 3
        assert session.spent.input_tokens == 2_000_001
        assert 4 < session.spent.dollars < 6
    assert "- `provider:openai:gpt-4o`: 2 calls, 2,000,000 tokens read, 0 written, $5.0000" in answer
    assert f"- `{CLAUDE}`: 1 call, 1 token read, 2 written, price unknown" in answer
    assert "- in all: 3 calls, 2,000,001 tokens read, 2 written, $5.0000 and 1 of unknown price" in answer


async def test_an_unknown_price_is_said(tmp_path: Path, server: LlmServer) -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    server.answers.append(Answer(pieces=(sse(chunk(content="hi"), {**chunk("stop"), "usage": usage}, "[DONE]"),)))
    async with chatting(tmp_path, server) as session:
        await session.accept("go").end()
        assert "7 tokens read, 3 written, price unknown" in await answer_to(session, "/cost")


async def test_a_fallback_answers_if_the_chosen_model_fails(tmp_path: Path, server: LlmServer) -> None:
    refused = Answer(401, (b'{"error": {"message": "no"}}',))
    half = Answer(pieces=(sse(chunk(content="half")),), cut=True)
    settings: dict[str, object] = {"model": CHAT, "fallback_models": ("provider:nosuch", CLAUDE), "sandbox": "off"}
    async with session_in(tmp_path, settings=settings, **server.environment()) as session:
        for failing in ([refused], [half, half]):
            server.answers += [*failing, anthropic("instead")]
            assert (await session.accept("go").end()).cause == "end_turn"
        server.answers.append(chat("back"))
        assert (await session.accept("go").end()).cause == "end_turn"
        assert [text.text for text in events_of(session, AgentText)] == ["instead", "instead", "back"]
        assert [ended.model for ended in events_of(session, ModelCallEnded)] == [CLAUDE, CLAUDE, CHAT]


async def test_a_fallback_that_reads_less_narrows_nothing(tmp_path: Path, server: LlmServer) -> None:
    too_long = Answer(400, (b'{"error": {"message": "prompt is too long: 40000 tokens > 32768 maximum"}}',))
    settings: dict[str, object] = {"model": CHAT, "fallback_models": (CLAUDE,)}
    async with session_in(tmp_path, settings=settings, **server.environment()) as session:
        server.answers.append(chat("hello"))
        await session.accept("go").end()
        size = (await session.projection()).size
        server.answers += [Answer(401, (b'{"error": {"message": "no"}}',)), too_long]
        assert (await session.accept("go").end()).cause == "error"
        said = str(events_of(session, RunStop)[-1].detail)
        assert said.index("OPENAI_API_KEY") < said.index("32768")
        assert (await session.projection()).size == size


async def test_what_each_model_said_is_said_at_last(tmp_path: Path, server: LlmServer) -> None:
    server.answers += [Answer(401, (b'{"error": {"message": "no"}}',))] * 2
    settings: dict[str, object] = {"model": CHAT, "fallback_models": (CLAUDE,)}
    async with session_in(tmp_path, settings=settings, **server.environment()) as session:
        assert (await session.accept("go").end()).cause == "error"
        said = str(events_of(session, RunStop)[-1].detail)
        assert said.index("OPENAI_API_KEY") < said.index("ANTHROPIC_API_KEY")
