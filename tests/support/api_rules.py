"""What LLM APIs refuse, as rules over the JSON body of a request. Written from the published rules, not from our
code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final

Body = dict[str, Any]
_ANTHROPIC_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def violations(path: str, body: Body) -> list[str]:
    """What the API at `path` has against `body`; empty when it takes it."""
    return list(next(rules for mark, rules in RULES.items() if mark in path)(body))


def _blank(text: object) -> bool:
    return not isinstance(text, str) or not text.strip()


def _alternates(roles: list[str], model: str) -> Iterator[str]:
    if not roles or roles[0] != "user":
        yield f"the first message is {roles[:1]}, not the user's"
    if roles and roles[-1] == model:
        yield "the last message is the model's"
    for at, (before, after) in enumerate(pairwise(roles), 1):
        if before == after:
            yield f"message {at} is {after}'s as the one before"


# --- OpenAI chat completions ------------------------------------------------------------------------------------------


def openai_chat(body: Body) -> Iterator[str]:
    messages = body["messages"]
    while messages and messages[0]["role"] in ("system", "developer"):
        messages = messages[1:]
    roles = [each["role"] for each in messages]
    # A result may be followed by the user as well as by the assistant.
    firsts = [role for at, role in enumerate(roles) if role != "tool" or roles[at - 1] != "tool"]
    yield from _alternates(firsts, "assistant")
    yield from (f"a message has role {role} in the middle" for role in {*roles} - {"user", "assistant", "tool"})
    seen: set[str] = set()
    due: list[str] = []
    for at, message in enumerate(messages):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in due:
                yield f"message {at} answers no call of the assistant's message before"
            due = [each for each in due if each != message.get("tool_call_id")]
        elif due:
            yield f"message {at} comes before the results of {due}"
            due = []
        calls = message.get("tool_calls")
        if not (calls and message.get("content") is None) and _blank_content(message.get("content")):
            yield f"message {at} is blank"
        if calls is not None and (not calls or message["role"] != "assistant"):
            yield f"message {at} has no calls to have"
        for call in calls or []:
            yield from (f"message {at}: {wrong}" for wrong in _chat_call(call, seen))
            seen.add(call["id"])
            due.append(call["id"])
    if due:
        yield f"no result for {due}"


def _chat_call(call: Body, seen: set[str]) -> Iterator[str]:
    if call["id"] in seen or not 0 < len(call["id"]) <= 40:
        yield f"a call with the id {call['id']!r}"
    if not _NAME.fullmatch(call["function"]["name"]):
        yield f"a call of {call['function']['name']!r}"
    if not isinstance(json.loads(call["function"]["arguments"]), dict):
        yield "a call whose arguments are no object"


def _blank_content(content: object) -> bool:
    if isinstance(content, list):
        return not content or any(_blank(part.get("text")) for part in content if part["type"] == "text")
    return _blank(content)


# --- OpenAI responses -------------------------------------------------------------------------------------------------


def openai_responses(body: Body) -> Iterator[str]:
    items = body["input"]
    if not items or items[0].get("role") != "user":
        yield "the first item is not the user's"
    if items and items[-1].get("role") != "user" and items[-1].get("type") != "function_call_output":
        yield "the last item is the model's"
    calls: list[str] = []
    answered: list[str] = []
    for at, item in enumerate(items):
        kind = item.get("type", "message")
        if kind == "function_call":
            if item["call_id"] in calls or not 0 < len(item["call_id"]) <= 64:
                yield f"item {at} is a call with the id {item['call_id']!r}"
            calls.append(item["call_id"])
        elif kind == "function_call_output":
            if item["call_id"] not in calls or item["call_id"] in answered or _blank(item["output"]):
                yield f"item {at} is an output for {item['call_id']!r}"
            answered.append(item["call_id"])
        elif kind == "message" and {*calls} != {*answered}:
            yield f"item {at} comes before the output of a call"
        yield from (f"item {at} {wrong}" for wrong in _item(kind, item, items[at + 1 : at + 2]))
    if {*calls} != {*answered}:
        yield "a call has no output"


def _item(kind: str, item: Body, after: list[Body]) -> Iterator[str]:
    if kind == "message" and _blank_content(item["content"]):
        yield "is blank"
    if kind == "reasoning":
        follows = any(n.get("type") in ("function_call", "reasoning") or n.get("role") == "assistant" for n in after)
        if not item.get("encrypted_content") or not follows:
            yield "is reasoning without what makes it valid"
    if kind not in ("message", "reasoning", "function_call", "function_call_output"):
        yield f"is of the kind {kind}"


# --- Anthropic messages -----------------------------------------------------------------------------------------------


def anthropic(body: Body) -> Iterator[str]:
    messages = [{**each, "content": _blocks(each["content"])} for each in body["messages"]]
    yield from _alternates([each["role"] for each in messages], "assistant")
    if json.dumps(body).count('"cache_control"') > 4:
        yield "more than four cache breakpoints"
    seen: set[str] = set()
    due: list[str] = []
    for at, message in enumerate(messages):
        content = message["content"]
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        if sorted(results) != sorted(due):
            yield f"message {at} has the results {results} where {due} are due"
        for block in content:
            yield from (f"message {at}: {wrong}" for wrong in _BLOCKS[block["type"]](block, message["role"], seen))
        due = [block["id"] for block in content if block["type"] == "tool_use"]
        seen.update(due)
        yield from (f"message {at}: {wrong}" for wrong in _order([block["type"] for block in content]))
    if due:
        yield f"no result for {due}"
    if seen and not body.get("tools"):
        yield "calls without tools"


def _order(kinds: list[str]) -> Iterator[str]:
    if not kinds:
        yield "empty"
    thinking = [kind in ("thinking", "redacted_thinking") for kind in kinds]
    if thinking != sorted(thinking, reverse=True) or (thinking and thinking[-1]):
        yield "thinking that is not first, or last"
    if "tool_result" in kinds[kinds.count("tool_result") :]:
        yield "a result after something else"


def _blocks(content: Any) -> list[Body]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _text(block: Body, _role: str, _seen: set[str]) -> Iterator[str]:
    if _blank(block["text"]):
        yield "a blank text"


def _tool_use(block: Body, role: str, seen: set[str]) -> Iterator[str]:
    if role != "assistant" or block["id"] in seen or not _ANTHROPIC_ID.fullmatch(block["id"]):
        yield f"a call with the id {block['id']!r}"
    if not isinstance(block["input"], dict) or not _NAME.fullmatch(block["name"]):
        yield "a call that is malformed"


def _tool_result(block: Body, role: str, _seen: set[str]) -> Iterator[str]:
    if role != "user" or any(_blank(each.get("text")) for each in _blocks(block.get("content", "x"))):
        yield "a result that is blank, or not the user's"


def _thinking(block: Body, role: str, _seen: set[str]) -> Iterator[str]:
    if role != "assistant" or not (block.get("signature") or block.get("data")):
        yield "thinking without a signature"


def _image(block: Body, role: str, _seen: set[str]) -> Iterator[str]:
    if role != "user":
        yield "a picture of the assistant"
    source = block["source"]
    if source["type"] != "base64" or source["media_type"] not in ("image/png", "image/jpeg") or not source["data"]:
        yield f"a picture without content: {source}"


_BLOCKS: Final = {
    "text": _text,
    "image": _image,
    "tool_use": _tool_use,
    "tool_result": _tool_result,
    "thinking": _thinking,
    "redacted_thinking": _thinking,
}


# --- Gemini generateContent -------------------------------------------------------------------------------------------


def gemini(body: Body) -> Iterator[str]:
    contents = body["contents"]
    merged = [each["role"] for at, each in enumerate(contents) if not _continues(contents, at)]
    yield from _alternates(merged, "model")
    due: list[str] = []
    for at, content in enumerate(contents):
        parts = content["parts"]
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        responses = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if not parts or any("text" in part and _blank(part["text"]) for part in parts):
            yield f"content {at} is blank"
        if [each["id"] for each in responses] != due:
            yield f"content {at} has other responses than {due}"
        if calls and content["role"] != "model":
            yield f"content {at} has calls that are not the model's"
        first = next((part for part in parts if "functionCall" in part), None)
        if first is not None and not first.get("thoughtSignature"):
            yield f"content {at} has a first call without a thought signature"
        if any(not isinstance(call.get("args", {}), dict) for call in calls):
            yield f"content {at} has arguments that are no object"
        due = [each["id"] for each in calls]
    if due:
        yield f"no response for {due}"


def _continues(contents: list[Body], at: int) -> bool:
    """Whether a user's content goes on from responses, which stand in one of their own."""
    if at == 0 or contents[at]["role"] != "user" or contents[at - 1]["role"] != "user":
        return False
    return any("functionResponse" in part for part in contents[at - 1]["parts"])


RULES: Final[dict[str, Callable[[Body], Iterator[str]]]] = {
    "/chat/completions": openai_chat,
    "/responses": openai_responses,
    "/messages": anthropic,
    "GenerateContent": gemini,
    "generateContent": gemini,
}
