"""Messages for models, judged by each API's rules over the bytes that its client sends."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, get_args

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.context.model import ModelError, Prompt, Thinking
from engine.context.models.provider import ProviderModel
from engine.context.models.providers import route_to
from engine.context.tail.prompt import message_text
from engine.context.tail.results import REST_LEFT_OUT
from engine.context.view import Summary, View
from engine.core.ids import BlobDigest, EventId, LlmResponseId, MessageId, Seq, ToolCallId
from engine.core.pictures import Picture, PictureContent
from engine.log.events import Event
from engine.log.events.conversation import (
    AgentReasoning,
    AgentText,
    Attachment,
    ResultStatus,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from tests.engine.context.view.logs import random_log
from tests.support.api_rules import violations
from tests.support.api_types import complaints
from tests.support.examples import examples
from tests.support.llm_server import LlmServer, llm_server_in_environment
from tests.support.pictures import png

MODELS = {
    "openai-chat": "openai-chat:gpt-4o",
    "openai-responses": "openai-responses:gpt-5",
    "anthropic": "anthropic:claude-opus-4-8",
    "google": "google-gla:gemini-2.5-flash",
}
SIGNERS = ("anthropic", "google", "openai-responses")
TEXTS = ("", " \n", "hello", "  two\nlines ", "\u2603 é")

Send = Callable[[str, Prompt], dict[str, Any]]


@pytest.fixture(scope="module")
def server() -> Iterator[LlmServer]:
    with pytest.MonkeyPatch.context() as patch, llm_server_in_environment(patch) as served:
        yield served


@pytest.fixture(scope="module")
def send(server: LlmServer) -> Iterator[Send]:
    """Sends a prompt to one provider, has its body judged and returns it."""
    others = {"anthropic-bound": "anthropic:claude-opus-5-5", "anthropic-sonnet": "anthropic:claude-sonnet-5-5"}
    specs = {**MODELS, **others}
    models = {name: ProviderModel(route_to(spec, os.environ)) for name, spec in specs.items()}

    async def reply(model: ProviderModel, prompt: Prompt) -> None:
        with pytest.raises(ModelError, match="no more answers"):
            [signal async for signal in model.reply(prompt)]

    def sent(name: str, prompt: Prompt) -> dict[str, Any]:
        portal.call(reply, models[name], prompt)
        asked = server.asked.pop()
        assert violations(asked.path, asked.body) == [], asked.body
        assert complaints(asked.path, asked.body) == [], asked.body
        if not prompt.calls_tools:
            assert_without_tools(asked.body)
        return asked.body

    portal: BlockingPortal
    with start_blocking_portal() as portal:
        yield sent
        for model in models.values():
            portal.call(model.aclose)


TOOL_KEYS = {"tools", "tool_choice", "parallel_tool_calls", "tool_calls", "tool_call_id", "tool_use_id", "toolConfig"}
TOOL_WORDS = {"tool", "tool_use", "tool_result", "function_call", "function_call_output", "thinking", "reasoning"}


def assert_without_tools(body: Any) -> None:
    """No tool, no call, no result and no thinking is anywhere in the body, under any API's name."""
    if isinstance(body, dict):
        named = {*body} & {*TOOL_KEYS, "functionCall", "functionResponse", "thoughtSignature", "signature"}
        assert not named, body
        assert not {body.get("type"), body.get("role")} & TOOL_WORDS, body
    for each in body.values() if isinstance(body, dict) else body if isinstance(body, list) else ():
        assert_without_tools(each)


def prompt(*messages: Event, tail: str = "TAIL", statements: bool = True, calls_tools: bool = True) -> Prompt:
    return Prompt(
        instructions="INSTRUCTIONS", messages=messages, tail=tail, statements=statements, calls_tools=calls_tools
    )


def user(text: str, *attachments: Attachment) -> UserMessage:
    return UserMessage(message_id=MessageId("m"), text=text, attachments=attachments)


def said(text: str, response: str | None = "r1") -> AgentText:
    return AgentText(message_id=MessageId("a"), text=text, llm_response_id=_response(response))


def thought(text: str, signature: str | None, provider: str | None, response: str = "r1") -> AgentReasoning:
    return AgentReasoning(
        message_id=MessageId("t"),
        text=text,
        signature=signature,
        provider=provider,
        llm_response_id=_response(response),
    )


def call(call_id: str, *thinking: ThinkingBlock, response: str | None = "r1", tool: str = "python") -> ToolCall:
    return ToolCall(
        tool_call_id=ToolCallId(call_id),
        tool=tool,
        arguments={"source": "1"},
        llm_response_id=_response(response),
        thinking=thinking,
    )


def result(call_id: str, text: str = "one") -> ToolResult:
    return ToolResult(tool_call_id=ToolCallId(call_id), status="ok", text=text)


def block(text: str, signature: str | None, provider: str | None) -> ThinkingBlock:
    return ThinkingBlock(text=text, signature=signature, provider=provider)


def _response(name: str | None) -> LlmResponseId | None:
    return None if name is None else LlmResponseId(name)


def dressed(log: Sequence[Event], random: Random) -> list[Event]:
    """The same log with texts, some of them blank, odd ids, and thinking of any provider, signed or not."""

    def odd(identity: str) -> ToolCallId:
        return ToolCallId(identity if len(identity) % 2 else f"{identity}/von: {'x' * 60}")

    def blocks(count: int) -> tuple[ThinkingBlock, ...]:
        return tuple(
            block(
                random.choice(("", "hm")),
                random.choice((None, "c2ln", "id|c2ln", "none!")),
                random.choice((None, *SIGNERS)),
            )
            for _ in range(count)
        )

    def dress(event: Event) -> Event:
        match event:
            case UserMessage():
                return replace(event, text=random.choice(TEXTS))
            case AgentText():
                return replace(event, text=random.choice(TEXTS), llm_response_id=_response(random.choice(("r", None))))
            case AgentReasoning():
                (like,) = blocks(1)
                return replace(event, text=like.text, signature=like.signature, provider=like.provider)
            case ToolCall():
                return replace(
                    event,
                    tool_call_id=odd(event.tool_call_id),
                    tool=random.choice(("python", "mcp.server/tool")),
                    thinking=blocks(len(event.thinking) and random.randrange(1, 4)),
                )
            case ToolResult():
                return replace(event, tool_call_id=odd(event.tool_call_id), text=random.choice(TEXTS))
            case _:
                return event

    return [dress(event) for event in log]


@pytest.mark.parametrize("name", MODELS)
@examples(0.2)
@given(seed=st.integers(0, 2**64 - 1))
def test_every_view_becomes_a_request_that_the_api_accepts(send: Send, name: str, seed: int) -> None:
    random = Random(seed)
    log = dressed(random_log(random, 40), random)
    view = View.from_events(log)
    tail = random.choice(("", "TAIL"))
    statements, calls_tools = random.random() < 0.8, random.random() < 0.7
    send(name, prompt(*view.ready(open_run=True), tail=tail, statements=statements, calls_tools=calls_tools))
    send(name, prompt(*view.events, tail=tail, calls_tools=calls_tools))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "messages",
    [
        (),
        (user(""),),
        (said("an import starts like this"), user("and now?")),
        (user("a"), said("first", "r1"), said("second", "r2"), user("b")),
        (user("a"), call("c1"), user("between"), result("c1")),
        (user("a"), call("c1"), call("c2"), result("c2"), result("c1")),
        (user("a"), call("c1", response=None), result("c1"), call("c2", response=None), result("c2")),
        (user("a"), result("c1")),
        (user("a"), call("c1"), result("c1"), call("c1"), result("c1")),
        (user("a"), call("toolu:01/é" * 20), result("toolu:01/é" * 20)),
        (Summary(seq=Seq(1), event_id=EventId("s"), text="earlier"), user("b")),
        (user("a"), thought("hm", "c2ln", "anthropic")),
    ],
    ids=str,
)
def test_a_conversation_of_any_shape_is_taken(send: Send, name: str, messages: tuple[Event, ...]) -> None:
    send(name, prompt(*messages))
    send(name, prompt(*messages, calls_tools=False))


PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages?beta=true",
    "google": "/v1beta/models/m:streamGenerateContent",
}


@pytest.mark.parametrize("name", MODELS)
def test_judge_objects_to_missing_or_repeated_calls_and_results(send: Send, name: str) -> None:
    body = send(name, prompt(user("a"), call("c1"), result("c1"), call("c2", response="r2"), result("c2"), user("b")))
    field = next(key for key in ("messages", "input", "contents") if key in body)
    messages = [each for each in body[field] if each.get("role") != "system"]
    for place in range(1, len(messages) - 1):
        assert violations(PATHS[name], {**body, field: messages[:place] + messages[place + 1 :]}), place
        assert violations(PATHS[name], {**body, field: messages[: place + 1] + messages[place:]}), place
    assert not violations(PATHS[name], {**body, field: messages})


@pytest.mark.parametrize("thinking", get_args(Thinking))
@pytest.mark.parametrize("name", MODELS)
def test_each_level_of_thinking_is_of_the_sdks_type(send: Send, name: str, thinking: Thinking) -> None:
    body = send(name, replace(prompt(user("hi"), call("c1"), result("c1")), thinking=thinking))
    assert not complaints(PATHS[name], body)
    field = {"openai-responses": "input", "google": "contents"}.get(name, "messages")
    wrong = [{**message, "role": 5} if "role" in message else message for message in body[field]]
    assert complaints(PATHS[name], {**body, field: wrong})
    assert complaints(PATHS[name], {**body, "unheard_of": 1})


def test_a_reply_is_followed_by_its_results_and_the_tail(send: Send) -> None:
    body = send("openai-chat", prompt(user("hi"), said("Let me."), call("c1"), result("c1"), user("stop there")))
    assert body["messages"] == [
        {"role": "system", "content": "INSTRUCTIONS"},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "Let me.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "python", "arguments": '{"source":"1"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "user", "content": "stop there\n\nTAIL"},
    ]
    assert [tool["function"]["name"] for tool in body["tools"]] == ["python"]
    assert body["parallel_tool_calls"] is False


def test_model_reads_that_the_rest_of_its_reply_was_omitted(send: Send) -> None:
    asked = replace(call("c1"), rest_left_out=True)
    for events, told in (((asked, result("c1")), "one"), ((asked,), "(no result)")):
        (answer,) = [
            each for each in send("openai-chat", prompt(user("hi"), *events))["messages"] if each["role"] == "tool"
        ]
        assert answer["content"] == f"{told}\n[{REST_LEFT_OUT}]"
    assert message_text(asked) == f"1\n[{REST_LEFT_OUT}]"


def test_what_was_attached_is_named(send: Send) -> None:
    message = user("look", Attachment(uri="file:///a.py", name="a.py"))
    body = send("openai-chat", prompt(message, tail=""))
    assert body["messages"][-1]["content"] == "look\n[a.py](file:///a.py)"


def test_anthropic_gets_only_its_own_thinking_first_and_once(send: Send) -> None:
    mine, redacted = block("hm", "c2ln", "anthropic"), block("", "redacted_thinking|c2VjcmV0", "anthropic")
    theirs, unsigned = block("no", "c2ln", "google"), block("no", None, "anthropic")
    body = send(
        "anthropic",
        prompt(
            user("hi"),
            thought("hm", "c2ln", "anthropic"),
            thought("no", "c2ln", "google"),
            said("Let me."),
            call("c1", mine, redacted, theirs, unsigned),
            result("c1"),
        ),
    )
    assert [each["content"] for each in body["messages"][1:]] == [
        [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "c2VjcmV0"},
            {"type": "text", "text": "Let me."},
            {"type": "tool_use", "id": "c1", "name": "python", "input": {"source": "1"}},
        ],
        [
            {
                "type": "tool_result",
                "tool_use_id": "c1",
                "content": [{"type": "text", "text": "one"}],
                "is_error": False,
                "cache_control": {"type": "ephemeral", "ttl": "5m"},
            },
            {"type": "text", "text": "TAIL"},
        ],
    ]
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}


@pytest.mark.parametrize(("status", "failed"), [("ok", False), ("error", True), ("rejected", False)])
def test_a_failed_result_has_the_providers_own_form(send: Send, status: ResultStatus, failed: bool) -> None:
    failing = replace(result("c1"), status=status)
    body = send("anthropic", prompt(user("hi"), call("c1"), failing))
    assert body["messages"][-1]["content"][0]["is_error"] is failed
    body = send("google", prompt(user("hi"), call("c1"), failing))
    parts = [part for content in body["contents"] for part in content["parts"]]
    (answered,) = (part["functionResponse"]["response"] for part in parts if "functionResponse" in part)
    assert ("error" in answered) is failed


def test_gemini_gets_a_calls_signature_back_on_the_call(send: Send) -> None:
    body = send("google", prompt(user("hi"), said("Let me."), call("c1", block("", "c2ln", "google")), result("c1")))
    text, called = body["contents"][1]["parts"]
    assert text == {"text": "Let me."}
    assert called["thoughtSignature"] == "c2ln"
    assert body["contents"][2]["parts"][0]["functionResponse"]["id"] == "c1"


def test_an_unreadable_signature_is_dropped(send: Send) -> None:
    messages = (user("hi"), call("c1", block("", "none!", "google"), block("hm", "none!", "google")), result("c1"))
    (called,) = send("google", prompt(*messages))["contents"][1]["parts"]
    assert called["thoughtSignature"] != "none!"


def test_reply_ends_at_a_user_message_or_unnamed_result(send: Send) -> None:
    def roles(*messages: Event) -> list[str]:
        return [each["role"] for each in send("openai-chat", prompt(*messages, tail=""))["messages"][1:]]

    torn = (call("c1"), result("c1"), user("b"), call("c2"), result("c2"))
    assert roles(user("a"), *torn) == ["user", "assistant", "tool", "user", "assistant", "tool"]
    nameless = (call("c1", response=None), result("c1"), call("c2", response=None), result("c2"))
    assert roles(user("a"), *nameless) == ["user", "assistant", "tool", "assistant", "tool"]
    batch = (call("c1"), result("c1"), call("c2"), result("c2"))
    assert roles(user("a"), *batch) == ["user", "assistant", "tool", "tool"]


def test_what_a_statement_called_itself_is_not_sent(send: Send) -> None:
    inner = replace(call("inner"), parent_id=ToolCallId("c1"))
    answer = replace(result("inner"), parent_id=ToolCallId("c1"))
    body = send("openai-chat", prompt(user("a"), call("c1"), inner, answer, result("c1")))
    assert "inner" not in str(body["messages"])


def test_openai_gets_its_encrypted_reasoning_back_under_its_id(send: Send) -> None:
    reasoned = block("hm", "rs_1|c2ln", "openai-responses")
    body = send("openai-responses", prompt(user("hi"), call("c1", reasoned), result("c1")))
    assert body["input"][1] == {
        "id": "rs_1",
        "summary": [{"text": "hm", "type": "summary_text"}],
        "encrypted_content": "c2ln",
        "type": "reasoning",
    }
    assert [each.get("type") for each in body["input"][2:4]] == ["function_call", "function_call_output"]
    assert body["parallel_tool_calls"] is False


def test_thinking_of_another_provider_is_not_sent_even_as_text(send: Send) -> None:
    foreign = block("SECRET THOUGHT", "c2ln", "another")
    messages = (user("hi"), thought("SECRET THOUGHT", "c2ln", "another"), call("c1", foreign), result("c1"))
    for name in MODELS:
        assert "SECRET THOUGHT" not in str(send(name, prompt(*messages)))


def test_thinking_bound_to_an_earlier_prefix_may_be_dropped(send: Send) -> None:
    body = send("anthropic-bound", prompt(user("hi"), call("c1", block("hm", "c2ln", "anthropic")), result("c1")))
    assert body["thinking"] == {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    assert "thinking" not in send("anthropic", prompt(user("hi")))


def test_thinking_that_is_off_is_off(send: Send) -> None:
    off = replace(prompt(user("hi")), thinking="off")
    assert "adaptive" not in str(send("anthropic-sonnet", off)["thinking"])
    assert send("anthropic-bound", off)["thinking"]["type"] == "adaptive"  # whose thinking cannot be off


def test_openai_keeps_nothing_and_shows_a_summary_of_its_thinking(send: Send) -> None:
    body = send("openai-responses", prompt(user("hi")))
    assert (body["store"], body["reasoning"]) == (False, {"summary": "auto"})
    other = send("openai-responses", replace(prompt(user("hi")), instructions="Another session."))
    assert body["prompt_cache_key"] == send("openai-responses", prompt(user("ho")))["prompt_cache_key"]
    assert body["prompt_cache_key"] != other["prompt_cache_key"]
    assert "summary" not in send("openai-responses", replace(prompt(user("hi")), thinking="off")).get("reasoning", {})


def test_gemini_shows_its_thinking(send: Send) -> None:
    assert send("google", prompt(user("hi")))["generationConfig"]["thinkingConfig"] == {"include_thoughts": True}


def test_the_tool_is_disabled_if_no_statement_is_wanted(send: Send) -> None:
    messages = (user("hi"), call("c1"), result("c1"))
    assert send("openai-chat", prompt(*messages, statements=False))["tool_choice"] == "none"
    assert send("anthropic", prompt(*messages, statements=False))["tool_choice"]["type"] == "none"


# --- without tool calling ---------------------------------------------------------------------------------------------

WRITTEN = (
    user("hi"),
    thought("hm", "c2ln", "anthropic"),
    said("Let me."),
    replace(call("c1", block("hm", "c2ln", "anthropic")), arguments={"source": "6 * 7\n"}),
    result("c1", "```\n42\n```\n"),
    said("And more.", "r2"),
    replace(call("c2", response="r2"), rest_left_out=True),
    result("c2", ""),
    user("a steer"),
    call("c3", response="r3"),
)


@pytest.mark.parametrize("name", MODELS)
def test_without_tools_statements_are_text_and_roles_alternate(send: Send, name: str) -> None:
    body = send(name, prompt(*WRITTEN, calls_tools=False))
    messages = body.get("messages") or body.get("input") or body["contents"]
    said_by = [
        (each["role"], "".join(_texts_in(each.get("content") or each["parts"])))
        for each in messages
        if each["role"] != "system"
    ]
    mine = "model" if name == "google" else "assistant"
    assert said_by == [
        ("user", "hi"),
        (mine, 'Let me.\n\n<script type="text/x-python">\n6 * 7\n</script>'),
        ("user", "[Result of the statement]\n````\n```\n42\n```\n````"),
        (mine, 'And more.\n\n<script type="text/x-python">\n1\n</script>'),
        ("user", f"[Result of the statement]\n```\n(no output)\n```\n[{REST_LEFT_OUT}]\n\na steer"),
        (mine, '<script type="text/x-python">\n1\n</script>'),
        ("user", f"[Result of the statement]\n```\n(no result)\n```{'' if name == 'anthropic' else chr(10) * 2}TAIL"),
    ]


def _texts_in(content: Any) -> list[str]:
    return [content] if isinstance(content, str) else [part["text"] for part in content]


def test_without_tools_a_foreign_call_is_named_with_its_arguments(send: Send) -> None:
    foreign = replace(call("c1", tool="bash"), arguments={"command": "ls"})
    body = send("openai-chat", prompt(user("hi"), foreign, result("c1"), calls_tools=False))
    assert body["messages"][2]["content"] == '[Call of bash]\n```\n{"command":"ls"}\n```'


def test_a_summary_without_tool_calling_mentions_no_tool(send: Send) -> None:
    for name in MODELS:
        send(name, prompt(*WRITTEN, statements=False, calls_tools=False))


@pytest.mark.parametrize("calls_tools", [True, False])
def test_counted_text_of_a_message_is_the_sent_text(send: Send, calls_tools: bool) -> None:
    body = send("openai-chat", prompt(*WRITTEN, tail="", calls_tools=calls_tools))
    sent = "\n".join(_texts_in(each["content"])[0] for each in body["messages"] if each.get("content"))
    for event in WRITTEN:
        is_call = calls_tools and isinstance(event, ToolCall)
        if event == result("c2", "") or is_call or isinstance(event, AgentReasoning):
            continue  # because these are said in other words, in JSON, and not at all
        assert message_text(event, calls_tools=calls_tools).removesuffix(f"\n[{REST_LEFT_OUT}]") in sent


PIXELS = PictureContent(png())
HERE, GONE = BlobDigest("blake2b-1"), BlobDigest("blake2b-2")
PICTURE = Picture(name="a.png", media_type="image/png", content=HERE, width=8, height=6, size=70)
LOST = replace(PICTURE, name="lost.png", content=GONE)


def strings(body: Any) -> list[str]:
    """Every text anywhere in a body, in order."""
    match body:
        case dict():
            return [text for each in body.values() for text in strings(each)]
        case list():
            return [text for each in body for text in strings(each)]
        case _:
            return [body] if isinstance(body, str) else []


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("calls_tools", [True, False])
def test_pictures_of_prompts_and_results_are_sent(send: Send, name: str, calls_tools: bool) -> None:
    attached = (Attachment(uri="x:", name=each.name, picture=each) for each in (PICTURE, LOST))
    shown = replace(result("c1"), pictures=(PICTURE,))
    messages = (user("look", *attached), call("c1"), shown, user("and"))
    body = send(name, replace(prompt(*messages, calls_tools=calls_tools), pictures={HERE: PIXELS}))
    encoded = b64encode(PIXELS).decode().rstrip("=").replace("+", "-").replace("/", "_")
    found = [text.replace("+", "-").replace("/", "_") for text in strings(body)]
    assert sum(encoded in text for text in found) == 2
    assert sum("[picture a.png, 8x6, 70 bytes]" in text for text in strings(body)) == 2
    assert sum("[picture lost.png, 8x6, 70 bytes]" in text for text in strings(body)) == 1
