"""The provider model over real sockets: against aimock, and against a scripted server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.abc
import anyio.to_thread
import pytest
from msgspec.structs import replace

from engine.context.model import (
    CallDelayed,
    CallRefused,
    CallRetried,
    ContextTooLongError,
    ModelError,
    ModelSignal,
    ModelUnusableError,
    Patience,
    Prompt,
    ReasoningDelta,
    ReplyEnded,
    StatementAsked,
    TextDelta,
    TokensUsed,
)
from engine.context.models import make_model
from engine.context.models.provider import ATTEMPTS, ProviderModel
from engine.context.models.providers import NAMED, PROVIDERS, Provider, address_shown, route_to, setup_of
from engine.context.models.statement_tool import read_call
from engine.core.errors import InvalidRequestError
from engine.core.ids import MessageId
from engine.core.installation import extra_command
from engine.log.events import Event
from engine.log.events.conversation import UserMessage
from tests.support.aimock import Aimock, aimock
from tests.support.llm_answers import BEGUN, CHAT, CLAUDE, GEMINI, PINGS, RESPONSES, WHOLE
from tests.support.llm_server import Answer, LlmServer, chunk, llm_server, llm_server_in_environment, sse
from tests.support.quick import diagonal_is_quick, first_is_quick

pytestmark = pytest.mark.anyio

SECONDS = 60.0
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
FIXTURES: list[dict[str, Any]] = [
    {"match": {"userMessage": "hello"}, "response": {"content": "Hi there, this is text.", "usage": USAGE}},
    {
        "match": {"userMessage": "compute"},
        "response": {
            "content": "Let me.",
            "reasoning": "I had better run it",
            "reasoningSignature": "c2lnbmVk",
            "toolCalls": [{"id": "call_1", "name": "python", "arguments": {"source": "6 * 7"}}],
        },
    },
    {
        "match": {"userMessage": "two at once"},
        "response": {
            "toolCalls": [
                {"id": "call_1", "name": "python", "arguments": {"source": "1"}},
                {"id": "call_2", "name": "python", "arguments": {"source": "2"}},
            ]
        },
    },
    {"match": {"userMessage": "cut off"}, "response": {"content": "unfin", "finishReason": "length"}},
    {"match": {"userMessage": "forbidden"}, "response": {"content": "no", "finishReason": "content_filter"}},
    {
        "match": {"userMessage": "busy", "sequenceIndex": 0},
        "response": {"error": {"message": "slow down", "type": "rate_limit_error"}, "status": 429, "retryAfter": 3},
    },
    {"match": {"userMessage": "busy"}, "response": {"content": "now"}},
]


@pytest.fixture(scope="module")
def mock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aimock]:
    with aimock(tmp_path_factory.mktemp("aimock"), FIXTURES) as served, pytest.MonkeyPatch.context() as patch:
        for name, value in (served.openai | served.anthropic | served.google).items():
            patch.setenv(name, value)
        yield served


class Waits:
    """A pause that does not wait and notes for how long it would have."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def prompt(text: str, calls_tools: bool = True) -> Prompt:
    messages: tuple[Event, ...] = (UserMessage(message_id=MessageId("m"), text=text),)
    return Prompt(instructions="Be brief.", messages=messages, tail="TAIL", calls_tools=calls_tools)


async def replied(spec: str, text: str, waits: Waits | None = None, *, calls_tools: bool = True) -> list[ModelSignal]:
    model = ProviderModel(route_to(spec, os.environ), pause=waits or Waits(), chance=lambda: 0.5)
    with anyio.fail_after(SECONDS):
        try:
            return [signal async for signal in model.reply(prompt(text, calls_tools))]
        finally:
            await model.aclose()


async def begun(reply: AsyncGenerator[ModelSignal, None]) -> ModelSignal:
    """The first signal of the reply itself: a busy machine may say before that it loads the library."""
    first = await anext(reply)
    return await anext(reply) if isinstance(first, CallDelayed) else first


def counted(signal: ModelSignal) -> ModelSignal:
    """The signal without a price."""
    return replace(signal, dollars=None) if isinstance(signal, TokensUsed) else signal


def texts(signals: list[ModelSignal]) -> str:
    return "".join(signal.text for signal in signals if isinstance(signal, TextDelta))


# --- against aimock ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [CHAT, RESPONSES, CLAUDE, GEMINI])
async def test_text_streams_in_pieces_and_ends_with_what_was_counted(mock: Aimock, spec: str) -> None:
    signals = await replied(spec, "hello")
    assert texts(signals) == "Hi there, this is text."
    assert sum(isinstance(signal, TextDelta) for signal in signals) > 1
    assert [counted(signal) for signal in signals[-2:]] == [TokensUsed(11, 7, 0), ReplyEnded()]


async def test_a_call_is_a_statement_after_signed_thinking_and_text(mock: Aimock) -> None:
    signals = await replied(CLAUDE, "compute")
    thought = "".join(signal.text for signal in signals if isinstance(signal, ReasoningDelta))
    assert thought == "I had better run it"
    assert ReasoningDelta("", "c2lnbmVk", "anthropic") in signals
    assert texts(signals) == "Let me."
    assert signals[-2:] == [StatementAsked("6 * 7", "call_1"), ReplyEnded()]


async def test_encrypted_reasoning_comes_with_its_id(mock: Aimock) -> None:
    signals = await replied(RESPONSES, "compute")
    (signed,) = [signal for signal in signals if isinstance(signal, ReasoningDelta) and signal.signature]
    assert signed.provider == "openai-responses"
    assert (signed.signature or "").startswith("rs")
    assert "|" in (signed.signature or "")
    assert StatementAsked("6 * 7", "call_1") in signals


async def test_reasoning_that_nobody_signs_is_shown_and_no_more(mock: Aimock) -> None:
    signals = await replied("openai-chat:gpt-5", "compute")
    assert ReasoningDelta("I had better run it") in signals
    assert not any(signal.signature for signal in signals if isinstance(signal, ReasoningDelta))


# aimock ends Gemini's calls with a reason that Google's client does not know and warns of.
@pytest.mark.filterwarnings("ignore:FUNCTION_CALL is not a valid FinishReason")
@pytest.mark.parametrize("spec", [CHAT, RESPONSES, CLAUDE, GEMINI])
async def test_every_call_of_a_reply_is_told(mock: Aimock, spec: str) -> None:
    signals = await replied(spec, "two at once")
    assert [signal.source for signal in signals if isinstance(signal, StatementAsked)] == ["1", "2"]


@pytest.mark.parametrize(("text", "cause"), [("cut off", "length"), ("forbidden", "refusal")])
async def test_why_a_reply_ended_is_told(mock: Aimock, text: str, cause: str) -> None:
    signals = await replied(CHAT, text)
    assert signals[-1] == ReplyEnded(cause)


async def test_a_busy_provider_is_asked_again_when_it_says(mock: Aimock) -> None:
    waits = Waits()
    assert texts(await replied(CHAT, "busy", waits)) == "now"
    assert waits.seconds == [3.0]


# --- against a server of our own --------------------------------------------------------------------------------------


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LlmServer]:
    with llm_server_in_environment(monkeypatch) as served:
        yield served


def error(status: int, message: str, /, **fields: Any) -> Answer:
    return Answer(status, (sse({"error": {"message": message, **fields}})[6:],))


DONE = Answer(pieces=(sse(chunk(role="assistant", content="fine"), chunk("stop"), "[DONE]"),))


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
async def test_what_may_pass_is_tried_again_with_growing_pauses(server: LlmServer, status: int) -> None:
    server.answers += [error(status, "later")] * 3 + [DONE]
    waits = Waits()
    signals = await replied(CHAT, "hi", waits)
    assert texts(signals) == "fine"
    assert waits.seconds == [0.5, 1.0, 2.0]
    retried = [signal for signal in signals if isinstance(signal, CallRetried)]
    assert [(each.attempt, each.attempts, each.seconds) for each in retried] == [(2, 5, 0.5), (3, 5, 1.0), (4, 5, 2.0)]
    assert f"later (HTTP {status})" in retried[0].reason


async def test_it_is_not_tried_for_ever(server: LlmServer) -> None:
    server.answers += [error(503, "overloaded")] * (ATTEMPTS + 1)
    with pytest.raises(ModelError, match="overloaded"):
        await replied(CHAT, "hi")
    assert len(server.asked) == ATTEMPTS


async def test_nobody_waits_for_an_hour(server: LlmServer) -> None:
    server.answers += [Answer(429, (b'{"error": {"message": "quota"}}',), {"Retry-After": "3600"}), DONE]
    with pytest.raises(ModelError, match=r"quota.*The provider asks for a pause of 60 min: try again after \d\d:\d\d$"):
        await replied(CHAT, "hi")
    assert len(server.asked) == 1


async def test_an_unreachable_server_is_retried_then_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    waits = Waits()
    with pytest.raises(ModelError, match=r"openai:llama at http://127.0.0.1:9/v1 cannot be reached.*\(tried 5 times\)"):
        await replied("openai:llama", "hi", waits)
    assert len(waits.seconds) == ATTEMPTS - 1


@pytest.mark.parametrize(
    ("spec", "status", "variable"),
    [(CHAT, 401, "OPENAI_API_KEY"), (RESPONSES, 403, "OPENAI_API_KEY"), (CLAUDE, 401, "ANTHROPIC_API_KEY")],
)
async def test_a_refused_key_names_the_variable_and_not_the_key(
    server: LlmServer, spec: str, status: int, variable: str
) -> None:
    server.answers += [error(status, "Incorrect API key provided: sk-test-openai-key", type="authentication_error")]
    with pytest.raises(ModelError, match=variable) as raised:
        await replied(spec, "hi")
    assert "sk-test" not in str(raised.value)
    assert len(server.asked) == 1


@pytest.mark.parametrize("spec", [CHAT, RESPONSES, CLAUDE, GEMINI, "mistral:mistral-large-latest"])
async def test_a_redirect_is_named_and_not_followed(server: LlmServer, spec: str) -> None:
    with llm_server() as other:
        place = other.url.replace("127.0.0.1", "me:secret@localhost")
        server.answers += [Answer(307, headers={"Location": f"{place}/v2?token=secret", "Content-Length": "0"})]
        with pytest.raises(ModelError, match=r" redirects to http://localhost:\d+/v2; .*not followed") as raised:
            await replied(spec, "hi")
        assert "secret" not in str(raised.value)
        assert (len(server.asked), other.asked) == (1, [])


async def test_gemini_says_a_bad_key_in_its_own_way(server: LlmServer) -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
    server.answers += [error(400, "API key not valid", status="INVALID_ARGUMENT", code=400, details=details)]
    with pytest.raises(ModelError, match="GOOGLE_API_KEY"):
        await replied(GEMINI, "hi")


@pytest.mark.parametrize(
    ("spec", "variable"), [(RESPONSES, "OPENAI_API_KEY"), (CLAUDE, "ANTHROPIC_API_KEY"), (GEMINI, "GOOGLE_API_KEY")]
)
async def test_a_missing_key_names_the_variable(monkeypatch: pytest.MonkeyPatch, spec: str, variable: str) -> None:
    for name in [name for name in os.environ if name.startswith(("OPENAI_", "ANTHROPIC_", "GOOGLE_", "GEMINI_"))]:
        monkeypatch.delenv(name)
    with pytest.raises(ModelError, match=f"needs credentials: run `rewindow auth add .*`.*, or set {variable}"):
        await replied(spec, "hi")


async def test_key_that_changes_is_used_from_the_next_reply_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with llm_server(Answer(400), Answer(400)) as server:
        for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        environ = {"ANTHROPIC_API_KEY": "first-key-of-a-test"}
        model = ProviderModel(route_to(CLAUDE, environ), environ=environ, pause=Waits())
        for key in ("first-key-of-a-test", "second-key-of-a-test"):
            environ["ANTHROPIC_API_KEY"] = key
            with pytest.raises(ModelError):
                async for _ in model.reply(prompt("hi")):
                    pass
        await model.aclose()
    sent = [asked.headers["Authorization"] for asked in server.asked]
    assert sent == ["Bearer first-key-of-a-test", "Bearer second-key-of-a-test"]


@pytest.mark.parametrize(
    ("spec", "status", "message", "fields"),
    [
        (CHAT, 400, "too many", {"code": "context_length_exceeded"}),
        (CHAT, 400, "This model's maximum context length is 4096 tokens", {}),
        (CHAT, 400, "the request exceeds the available context size", {"type": "exceed_context_size_error"}),
        (RESPONSES, 400, "Your input exceeds the context window", {"code": "context_length_exceeded"}),
        (CLAUDE, 400, "prompt is too long: 210000 tokens > 200000 maximum", {"type": "invalid_request_error"}),
        (CLAUDE, 413, "Request exceeds the maximum size", {"type": "request_too_large"}),
        (GEMINI, 400, "The input token count (9) exceeds the maximum number of tokens allowed (8).", {"code": 400}),
    ],
)
async def test_a_prompt_that_is_too_long_is_told_apart(
    server: LlmServer, spec: str, status: int, message: str, fields: dict[str, Any]
) -> None:
    if spec == GEMINI:
        fields = {**fields, "status": "INVALID_ARGUMENT"}
    server.answers += [error(status, message, **fields)]
    with pytest.raises(ContextTooLongError, match=message[:8]):
        await replied(spec, "hi")
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        (500, "tools param requires --jinja flag"),
        (500, "Unsupported param: tools"),
        (404, "No endpoints found that support tool use. To learn more about provider routing, visit: https://x"),
        (400, "Unrecognized request argument supplied: tools"),
        (400, "Function calling is not enabled for models/gemma-3-27b-it"),
        (400, "deepseek-reasoner does not support Function Calling"),
    ],
)
async def test_server_without_tools_is_reported_once_with_the_setting(
    server: LlmServer, status: int, message: str
) -> None:
    server.answers += [error(status, message)] * 2
    with pytest.raises(ModelUnusableError, match="models_without_tools") as raised:
        await replied(CHAT, "hi")
    assert message in str(raised.value)
    assert f"add {CHAT} to models_without_tools (REWINDOW_MODELS_WITHOUT_TOOLS)" in str(raised.value)
    assert len(server.asked) == 1


async def test_without_tools_the_setting_is_not_mentioned(server: LlmServer) -> None:
    server.answers += [error(400, "it does not support tools")]
    with pytest.raises(ModelError, match="does not support tools") as raised:
        await replied(CHAT, "hi", calls_tools=False)
    assert "models_without_tools" not in str(raised.value)


async def test_a_model_that_refuses_in_words_is_quoted(server: LlmServer) -> None:
    refusal = sse(chunk(role="assistant"), chunk(refusal="I will"), chunk(refusal=" not."), chunk("stop"), "[DONE]")
    server.answers += [Answer(pieces=(refusal,))]
    assert await replied(CHAT, "hi") == [TextDelta("I will not."), ReplyEnded("refusal")]


async def test_a_refusal_after_another_failure_still_names_the_window(server: LlmServer) -> None:
    server.answers += [error(503, "busy"), error(400, "This model's maximum context length is 32768 tokens")]
    with pytest.raises(ContextTooLongError, match=r"32768.*tried 2 times") as raised:
        await replied(CHAT, "hi")
    assert raised.value.window == 32_768


async def test_lm_studio_says_an_overflow_in_its_own_way(server: LlmServer) -> None:
    text = "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context"
    server.answers += [error(400, f"{text} length of only 4096 tokens")]
    with pytest.raises(ContextTooLongError) as raised:
        await replied(CHAT, "hi")
    assert raised.value.window == 4_096


async def test_a_short_patience_makes_short_pauses_and_no_other_error(server: LlmServer) -> None:
    waits, patience = Waits(), Patience(retry=0.2)
    server.answers += [error(503, "busy"), error(400, "bad")]
    model = ProviderModel(route_to(CHAT, os.environ), patience, pause=waits, chance=lambda: 0.5)
    with pytest.raises(ModelError, match=r"bad \(HTTP 400\) \(tried 2 times\)$"):
        [signal async for signal in model.reply(prompt("hi"))]
    await model.aclose()
    assert waits.seconds == [0.2]


async def test_a_day_is_said_in_hours_with_its_date(server: LlmServer) -> None:
    server.answers += [Answer(429, (b'{"error": {"message": "quota"}}',), {"Retry-After": "90000"})]
    with pytest.raises(ModelError, match=r"a pause of 25 h: try again after \d\d \w+ \d\d:\d\d$"):
        await replied(CHAT, "hi")


async def test_an_unknown_reason_ends_a_reply(server: LlmServer) -> None:
    server.answers += [Answer(pieces=(sse(chunk(content="hi"), chunk("banana"), "[DONE]"),))]
    assert await replied(CHAT, "hi") == [TextDelta("hi"), ReplyEnded()]


async def test_who_ended_a_reply_early_is_named(server: LlmServer) -> None:
    server.answers += [Answer(pieces=BEGUN[GEMINI])] * ATTEMPTS
    with pytest.raises(ModelError, match=rf"^{GEMINI} at {server.url}.*: the reply ended early \(tried 2 times\)$"):
        await replied(GEMINI, "hi")


async def test_what_takes_too_long_is_tried_twice_and_says_so(server: LlmServer) -> None:
    server.answers += [Answer(pieces=BEGUN[CHAT], cut=True), Answer(pieces=(WHOLE[CHAT],))]
    (retried,) = (each for each in await replied(CHAT, "hi") if isinstance(each, CallRetried))
    assert (retried.attempt, retried.attempts) == (2, 2)


@pytest.mark.parametrize("key", ["sk-test\n", " sk-test\r\n", "sk-test "])
async def test_white_space_around_a_key_is_not_part_of_it(
    server: LlmServer, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    server.answers += [Answer(pieces=(WHOLE[CHAT],))]
    await replied(CHAT, "hi")
    assert server.asked[0].headers["authorization"] == "Bearer sk-test"


@pytest.mark.parametrize("key", ["sk-te st", "sk-te\nst", "sk-tést"])
async def test_what_cannot_be_a_key_is_named_and_not_sent(
    server: LlmServer, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ModelUnusableError, match="OPENAI_API_KEY") as raised:
        await replied(CHAT, "hi")
    assert "sk-te" not in str(raised.value)
    assert not server.asked


async def test_an_account_without_summaries_of_thinking_gets_replies(server: LlmServer) -> None:
    server.answers += [
        error(400, "Your organization must be verified to generate reasoning summaries."),
        Answer(pieces=(WHOLE[RESPONSES],)),
    ]
    assert texts(await replied(RESPONSES, "hi")) == "hi"
    assert [asked.body.get("reasoning") for asked in server.asked] == [{"summary": "auto"}, None]


@pytest.mark.parametrize("spec", WHOLE)
async def test_cached_tokens_are_counted_in_each_format(server: LlmServer, spec: str) -> None:
    server.answers += [Answer(pieces=(WHOLE[spec],))]
    signals = await replied(spec, "hi")
    assert texts(signals) == "hi"
    assert [counted(signal) for signal in signals if isinstance(signal, TokensUsed)] == [TokensUsed(11, 7, 5)]


# --- a reply that breaks off ------------------------------------------------------------------------------------------


QUICK = Patience(first_byte=1, stall=0.5, retry=60)


async def patient(spec: str, patience: Patience) -> list[ModelSignal]:
    model = ProviderModel(route_to(spec, os.environ), patience, pause=Waits(), chance=lambda: 0.5)
    with anyio.fail_after(SECONDS):
        try:
            return [signal async for signal in model.reply(prompt("hi"))]
        finally:
            await model.aclose()


BROKEN = [
    *diagonal_is_quick(["stalls", "is cut"], list(BEGUN)),
    *(("ends", spec) for spec in BEGUN if spec != CHAT),  # some compatible servers never say that a reply has ended
]


@pytest.mark.parametrize(("how", "spec"), BROKEN)
async def test_a_reply_that_breaks_off_is_withdrawn_and_begun_again(server: LlmServer, how: str, spec: str) -> None:
    broken = Answer(pieces=BEGUN[spec], hang=how == "stalls", cut=how == "is cut")
    server.answers += [broken, Answer(pieces=(WHOLE[spec],))]
    signals = await patient(spec, QUICK)
    (retried,) = (signal for signal in signals if isinstance(signal, CallRetried))
    assert (retried.attempt, retried.withdrawn) == (2, True)
    assert next(signal.text for signal in signals if isinstance(signal, TextDelta)) == "half"
    assert texts(signals[signals.index(retried) :]) == "hi"
    assert isinstance(signals[-1], ReplyEnded)
    if how == "stalls":
        assert "did not respond in time" in retried.reason
        assert server.left.wait(SECONDS)


@pytest.mark.parametrize("spec", first_is_quick(BEGUN))
async def test_who_does_not_begin_is_asked_once_more(server: LlmServer, spec: str) -> None:
    server.answers += [Answer(hang=True), Answer(pieces=(WHOLE[spec],))]
    signals = await patient(spec, QUICK)
    (retried,) = (signal for signal in signals if isinstance(signal, CallRetried))
    assert not retried.withdrawn
    assert texts(signals) == "hi"


@pytest.mark.slow
async def test_who_never_begins_is_asked_twice(server: LlmServer) -> None:
    server.answers += [Answer(hang=True)] * ATTEMPTS
    with pytest.raises(ModelError, match=rf"{server.url}.* did not begin its reply in time \(tried 2 times\)"):
        await patient(CHAT, QUICK)
    assert len(server.asked) == 2


@pytest.mark.parametrize("spec", first_is_quick(BEGUN))
async def test_pings_count_as_something(server: LlmServer, spec: str) -> None:
    server.answers.append(Answer(pieces=(*BEGUN[spec], PINGS[spec]), hang=True, every=0.1))
    model = ProviderModel(route_to(spec, os.environ), QUICK, pause=Waits())
    reply = model.reply(prompt("hi"))
    assert await begun(reply) == TextDelta("half")
    with anyio.move_on_after(1) as waiting:
        await anext(reply)
    assert waiting.cancelled_caught
    await model.aclose()


async def test_an_error_in_a_stream_is_tried_again(server: LlmServer) -> None:
    broken = sse(chunk(role="assistant", content="half"), {"error": {"message": "went down", "type": "server_error"}})
    server.answers += [Answer(pieces=(broken,)), Answer(pieces=(WHOLE[CHAT],))]
    signals = await replied(CHAT, "hi")
    (retried,) = (signal for signal in signals if isinstance(signal, CallRetried))
    assert retried.withdrawn
    assert "went down" in retried.reason
    assert texts(signals) == "halfhi"


@pytest.mark.parametrize("spec", BEGUN)
async def test_a_reply_that_breaks_off_again_is_an_error(server: LlmServer, spec: str) -> None:
    server.answers += [Answer(pieces=BEGUN[spec], cut=True)] * ATTEMPTS
    with pytest.raises(ModelError, match=r"\(tried 2 times\)"):
        await replied(spec, "hi")
    assert len(server.asked) == 2


@pytest.mark.parametrize("body", [b"<html>nonsense</html>", b"data: {]\n\n", b""])
async def test_an_invalid_answer_is_a_model_failure(server: LlmServer, body: bytes) -> None:
    server.answers += [Answer(pieces=(body,) if body else ())] * ATTEMPTS
    signals: list[ModelSignal] = []
    with pytest.raises(ModelError):
        signals = await replied(CHAT, "hi")
    assert texts(signals) == ""


async def test_closing_the_stream_hangs_up_at_once(server: LlmServer) -> None:
    server.answers += [Answer(pieces=(sse(chunk(role="assistant", content="begun")),), hang=True)]
    model = ProviderModel(route_to(CHAT, os.environ))
    stream = model.reply(prompt("hi"))
    assert await begun(stream) == TextDelta("begun")
    with anyio.fail_after(SECONDS):
        await stream.aclose()
        assert await anyio.to_thread.run_sync(server.left.wait, SECONDS)
    await model.aclose()


async def test_a_cancelled_wait_for_the_first_piece_hangs_up(server: LlmServer) -> None:
    server.answers += [Answer(pieces=(sse(chunk(role="assistant")),), hang=True)]
    model = ProviderModel(route_to(CHAT, os.environ))

    async def listen(*, task_status: anyio.abc.TaskStatus[None]) -> None:
        stream = model.reply(prompt("hi"))
        task_status.started()
        async for _ in stream:
            pass

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as group:
            await group.start(listen)
            assert await anyio.to_thread.run_sync(server.hanging.wait, SECONDS)
            group.cancel_scope.cancel()
        assert await anyio.to_thread.run_sync(server.left.wait, SECONDS)
    await model.aclose()


# --- what needs no server ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "base_url", "model"),
    [
        ("openai:gpt-5", None, "openai-responses:gpt-5"),
        ("openai:gpt-5", "https://eu.api.openai.com/v1", "openai-responses:gpt-5"),
        ("openai:llama3:8b", "http://localhost:11434/v1", "openai-chat:llama3:8b"),
        ("openai:m", "https://notopenai.com/v1", "openai-chat:m"),
        ("openai-responses:m", "http://localhost:1", "openai-responses:m"),
        ("google-gla:gemini-3", None, "google:gemini-3"),
        ("anthropic:claude", None, "anthropic:claude"),
    ],
)
async def test_where_a_model_is_looked_for(spec: str, base_url: str | None, model: str) -> None:
    route = route_to(spec, {"OPENAI_BASE_URL": base_url} if base_url else {})
    assert (route.name, route.model) == (spec, model)


@pytest.mark.parametrize(("phase", "slow"), [("read", True), ("connect", False)])
async def test_a_read_timeout_is_retried_less_often(phase: Literal["read", "connect"], slow: bool) -> None:
    # Only here, because who collects tests need not wait for it.
    from pydantic_ai.exceptions import ModelTimeoutError

    from engine.context.models.provider_stream import failure_of

    failed = failure_of(ModelTimeoutError("m", "timed out", phase=phase), "openai:m", NAMED["openai-responses"])
    assert (failed.transient, failed.slow) == (True, slow)
    assert "openai:m" in str(failed.error)


async def test_what_a_provider_says_is_shown_in_bounded_length() -> None:
    from pydantic_ai.exceptions import ModelHTTPError  # as above

    from engine.context.models.provider_stream import failure_of

    failed = failure_of(ModelHTTPError(400, "m", {"message": "no " * 1000}), "openai:m", NAMED["openai-responses"])
    assert str(failed.error).startswith("openai:m: no no ")
    assert str(failed.error).endswith("…")
    assert len(str(failed.error)) < 600


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openai", "OPENAI_BASE_URL"),
        ("openai-responses", "OPENAI_BASE_URL"),
        ("anthropic", "ANTHROPIC_BASE_URL"),
        ("google", "GOOGLE_GEMINI_BASE_URL"),
        ("groq", "GROQ_BASE_URL"),
        ("ollama", "OLLAMA_BASE_URL"),
    ],
)
async def test_a_model_of_a_server_without_an_address_is_refused_with_the_variable(name: str, variable: str) -> None:
    for url in ("http://a\nb", "http://[::1", "http://a:port", "\udcff"):
        with pytest.raises(InvalidRequestError, match=f"{variable} must be a web address"):
            make_model(f"provider:{name}:m", environ={variable: url})
        setup = setup_of(f"provider:{name}:m", {variable: url})
        assert setup is not None
        assert (setup.is_done, variable in setup.sentence) == (False, True)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:password@a.example:8443/v1/?key=k#f", "https://a.example:8443/v1"),
        ("http://[::1]:80", "http://[::1]:80"),
        ("http://[::1", ""),
        ("http://a/\x1b]0;title", ""),
        ("", ""),
        (None, ""),
    ],
)
async def test_addresses_are_shown_without_secrets_and_control_characters(url: str | None, shown: str) -> None:
    assert address_shown(url) == shown


@pytest.mark.parametrize("spec", ["provider", "provider:", "provider:openai", "provider:openai:"])
async def test_a_spec_without_provider_and_model_is_refused(spec: str) -> None:
    with pytest.raises(InvalidRequestError, match="needs a provider and a model"):
        make_model(spec)


async def test_a_provider_that_there_is_not_is_named() -> None:
    with pytest.raises(ModelError, match="nobody:model"):
        await replied("nobody:model", "hi")


@pytest.mark.parametrize(
    ("tool", "arguments", "given"),
    [
        ("python", '{"code": "1"}', {"code": "1"}),
        ("python", {"source": 1}, {"source": 1}),
        ("python", None, {}),
        ("python", '{"source": "' + "x" * 10_000, None),
        ("bash", '{"command": "ls \'\\n"}', {"command": "ls '\n"}),
    ],
)
def test_an_invalid_call_is_refused_with_its_problem(
    tool: str, arguments: str | dict[str, object] | None, given: dict[str, object] | None
) -> None:
    call = read_call(tool, arguments, "c1")
    assert isinstance(call, CallRefused)
    assert (call.tool, call.tool_call_id) == (tool, "c1")
    assert "source" in call.reason
    assert given is None or call.arguments == given
    assert len(repr(call)) < 3_000


def _runs(code: str, *flags: str) -> str:
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, *flags, "-c", code], cwd=root, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_without_the_extra_it_is_said_how_to_get_it() -> None:
    code = (
        "import sys; sys.modules['pydantic_ai'] = None\n"
        "from engine.context.models import make_model\n"
        "try: make_model('provider:openai:gpt-5')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    assert _runs(code) == (
        "InvalidRequestError model `provider:openai:gpt-5` needs the extra `providers`;"
        f" run: {extra_command('providers')}\n"
    )


@pytest.mark.slow
async def test_google_cloud_finds_no_program_of_a_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"/project/.venv/bin:{os.environ['PATH']}")
    monkeypatch.delenv("GOOGLE_API_USE_CLIENT_CERTIFICATE", raising=False)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    model = ProviderModel(route_to("google-cloud:gemini-2.5-flash", os.environ))
    with pytest.raises(ModelError):
        [signal async for signal in model.reply(prompt("hi"))]
    assert os.environ["PATH"] == "/usr/local/bin:/usr/bin:/bin:/snap/bin"
    assert os.environ["GOOGLE_API_USE_CLIENT_CERTIFICATE"] == "false"


async def test_choosing_a_provider_imports_nothing_of_it() -> None:
    code = (
        "import sys, acp_adapter.cli, acp_adapter.connection, engine.session.registry\n"
        "from engine.context.models import make_model\n"
        "model = make_model('provider:openai:gpt-5')\n"
        "print(sorted({'pydantic_ai', 'openai', 'anthropic', 'google.genai', 'httpx'} & set(sys.modules)))"
    )
    assert _runs(code) == "[]\n"


async def test_a_cancel_does_not_wait_for_imports() -> None:
    code = (
        "import anyio, os, sys\n"
        "from engine.context.models import make_model\n"
        "from engine.context.model import Prompt\n"
        "async def main():\n"
        "    with anyio.move_on_after(0.02):\n"
        "        await anext(make_model('provider:openai:m').reply(Prompt(instructions='', messages=(), tail='')))\n"
        "    print('pydantic_ai.direct' in sys.modules, flush=True)\n"
        "    os._exit(0)\n"
        "anyio.run(main)"
    )
    assert _runs(code) == "False\n"


EACH = pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.name)


def test_no_two_providers_share_a_name_or_an_alias() -> None:
    names = [name for provider in PROVIDERS for name in (provider.name, *provider.aliases)]
    assert len(set(names)) == len(names)


@EACH
def test_every_name_of_a_provider_leads_to_it(provider: Provider) -> None:
    for name in (provider.name, *provider.aliases):
        assert route_to(f"{name}:m", {}).provider is provider
    if provider.address is not None:
        elsewhere = {provider.address.variable: "http://localhost:1"}
        assert route_to(f"{provider.aliases[0]}:m", elsewhere).provider is NAMED[provider.address.otherwise]
        assert route_to(f"{provider.name}:m", elsewhere).provider is provider


@EACH
def test_only_who_signs_thinking_signs_calls(provider: Provider) -> None:
    assert provider.signer == (provider.name if provider.signs_thinking else None)
    assert provider.signs_thinking or not provider.signs_calls


@pytest.mark.slow
@pytest.mark.parametrize(
    "provider", [each for each in PROVIDERS if each.variables and not each.kind], ids=lambda provider: provider.name
)
def test_the_library_knows_each_provider_and_its_key(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    from pydantic_ai.exceptions import UserError  # only here, because who collects tests need not wait for it
    from pydantic_ai.models import infer_model

    for variable in (*provider.variables, "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(UserError, match="|".join(provider.variables)):
        infer_model(f"{provider.name}:maker/model")


def test_a_provider_without_a_row_is_asked_for_nothing_particular() -> None:
    route = route_to("new:m:8b", {})
    assert (route.provider, route.model) == (Provider(name="new"), "new:m:8b")
    assert route.provider.signer is None
