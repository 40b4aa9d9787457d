"""Attachments of a prompt: embedded text, lines in links, mentions in sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.log.store.memory import MemoryStore
from tests.support.gates import Gate
from tests.support.memory import Client, in_memory, logged
from tests.support.scripts import scripted

pytestmark = pytest.mark.anyio


def resource(uri: str, text: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "text": text, "mimeType": "text/x-python"}}


def link(uri: str, name: str) -> dict[str, Any]:
    return {"type": "resource_link", "uri": uri, "name": name}


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


async def prompted(agent: Client, session: str, *blocks: dict[str, Any]) -> str:
    result = await agent.call("session/prompt", {"sessionId": session, "prompt": list(blocks)})
    return result["stopReason"]


def shown(agent: Client) -> list[str]:
    """The content of every call that has ended."""
    ended = [update for update in agent.updates("tool_call_update") if update.get("status") in ("completed", "failed")]
    return ["\n".join(block["content"]["text"] for block in update["content"]) for update in ended]


def opened(store: MemoryStore, session: str) -> list[dict[str, Any]]:
    """The executions that opened attachments. The editor shows these as part of the prompt, and no call for them."""
    events = logged(store, session)
    meta = {event["statement_id"] for event in events if event.get("statement_kind") == "meta"}
    return [event for event in events if event["kind"] == "execution_finished" and event["statement_id"] in meta]


def texts(store: MemoryStore, session: str) -> list[str]:
    """What the opened attachments show."""
    return [display["text"] for event in opened(store, session) for display in event["displays"]]


async def test_embedded_text_wins_over_the_disk(agent: Client, store: MemoryStore, tmp_path: Path) -> None:
    (tmp_path / "calc.py").write_text("saved = 1\n")
    session = await agent.open(tmp_path)
    uri = (tmp_path / "calc.py").as_uri()
    await prompted(agent, session, said("look at "), resource(uri, "unsaved = 2\n"))
    assert shown(agent) == []
    (text,) = texts(store, session)
    assert "unsaved = 2" in text
    assert "saved = 1" not in text.replace("unsaved", "")
    assert await agent.prompt(session, "print(calc_py.Refresh().Render().text)") == "end_turn"
    assert "saved = 1" in shown(agent)[-1]


async def test_attached_text_is_not_sent_back(agent: Client, store: MemoryStore, tmp_path: Path) -> None:
    session = await agent.open(tmp_path)
    text = "".join(f"line {number}\n" for number in range(5_000))
    assert await prompted(agent, session, said("look"), resource((tmp_path / "new.py").as_uri(), text)) == "end_turn"
    assert "line 1\n" not in json.dumps(agent.updates())
    assert "line 1" in texts(store, session)[0]


async def test_embedded_text_of_an_unsaved_file(agent: Client, store: MemoryStore, tmp_path: Path) -> None:
    session = await agent.open(tmp_path)
    await prompted(agent, session, resource((tmp_path / "sub" / "new.py").as_uri(), "x = 1\n"))
    await agent.prompt(session, "print(new_py.title, new_py.path)")
    assert f"sub/new.py {tmp_path}/sub/new.py" in shown(agent)[-1]
    assert "x = 1" in texts(store, session)[0]


@pytest.mark.parametrize("lines", ["L4000:4003", "L4000-4003"])
async def test_lines_in_a_link_set_the_position(agent: Client, store: MemoryStore, tmp_path: Path, lines: str) -> None:
    text = "".join(f"line {number}\n" for number in range(1, 5001))
    (tmp_path / "big.py").write_text(text)
    session = await agent.open(tmp_path)
    uri = f"{(tmp_path / 'big.py').as_uri()}#{lines}"
    excerpt = "".join(f"selected {number}\n" for number in range(4000, 4004))
    await prompted(agent, session, link(uri, "big.py"))
    await prompted(agent, session, resource(uri, text.replace("line", "unsaved")))
    await prompted(agent, session, resource(uri, excerpt))
    await agent.prompt(session, "print(big_py.title)")
    for content, source in zip(texts(store, session), ("line", "unsaved", "selected"), strict=True):
        assert f"4000\t{source} 4000\n4001\t{source} 4001\n" in content
    last = opened(store, session)[2]
    assert "(lines 4000 to 4003 alone)" in json.dumps(last["displays"])
    assert "big.py:4000" in shown(agent)[-1]
    assert last["locations"] == [{"path": str(tmp_path / "big.py"), "line": 4000}]


async def test_mention_in_a_sentence(store: MemoryStore, tmp_path: Path) -> None:
    (tmp_path / "calc.py").write_text("saved = 1\n")
    uri = (tmp_path / "calc.py").as_uri()
    blocks = [
        said("look at "),
        resource(uri, "unsaved\n"),
        said(" and "),
        link("https://example.org/x", "x"),
        said("."),
    ]
    async with in_memory(tmp_path, store=store, model=scripted(tmp_path, {"text": "Looked."})) as first:
        session = await first.open(tmp_path)
        assert await prompted(first, session, *blocks) == "end_turn"
        assert any(update.get("title") == "look at calc.py and x." for update in first.updates("session_info_update"))
        assert "https://example.org/x was not opened: linked web pages are not fetched" in first.text()
    async with in_memory(tmp_path, store=store) as second:
        await second.initialize()
        await second.load(session, tmp_path)
        again = second.updates("user_message_chunk")
        assert [update["content"] for update in again] == blocks
        assert len({update["messageId"] for update in again}) == 1


async def test_a_relative_link_is_opened_from_the_session_s_directory(
    agent: Client, store: MemoryStore, tmp_path: Path
) -> None:
    (tmp_path / "calc.py").write_text("relative = 1\n")
    session = await agent.open(tmp_path)
    await prompted(agent, session, link("./calc.py", "calc.py"), link("gone.py", "gone.py"))
    found, missing = texts(store, session)
    assert "relative = 1" in found
    assert "no file gone.py" in missing


async def test_long_text_is_attached_and_replayed_whole(store: MemoryStore, tmp_path: Path) -> None:
    long = "a sentence, not a statement\n" * 40_000
    async with in_memory(tmp_path, store=store) as first:
        session = await first.open(tmp_path)
        assert await prompted(first, session, said(long)) == "end_turn"
        assert "A statement may have at most" in first.text()
        await first.prompt(session, "len(prompt_txt.revision.lines)")
        assert first.updates("tool_call_update")[-1]["_meta"]["rewindow"]["execution"]["value"] == "40000"
    async with in_memory(tmp_path, store=store) as second:
        await second.initialize()
        await second.load(session, tmp_path)
        assert second.updates("user_message_chunk")[0]["content"]["text"] == long


@pytest.mark.parametrize("uri", ["", "\ud800", "file://[", "file:///%00", "file:///" + "a/" * 3000, "x" * 70_000, "//"])
async def test_any_link_leaves_the_session_alive(agent: Client, tmp_path: Path, uri: str) -> None:
    session = await agent.open(tmp_path)
    for block in (link(uri, ""), resource(uri, "text \ud800\n")):
        assert await prompted(agent, session, said("1"), block) == "end_turn"
    assert await agent.prompt(session, "40 + 2") == "end_turn"
    assert agent.updates("tool_call_update")[-1]["_meta"]["rewindow"]["execution"]["value"] == "42"


async def test_attachments_of_a_steer_are_opened_first(store: MemoryStore, tmp_path: Path, gate: Gate) -> None:
    model = scripted(tmp_path, {"statement": gate.source}, {"statement": "print(new_py.title)"}, {"text": "Seen."})
    async with in_memory(tmp_path, store=store, model=model) as agent:
        session = await agent.open(tmp_path)
        await agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
        prompt = await agent.begin_prompt(session, "go")
        await gate.reached()
        content = [resource((tmp_path / "new.py").as_uri(), "unsaved\n"), link("https://example.org/x", "x")]
        meta = {"rewindow": {"promptKind": "steer"}}
        steer = await agent.begin("session/prompt", {"sessionId": session, "prompt": content, "_meta": meta})
        gate.release()
        await agent.responses([prompt, steer])
        assert "unsaved" in texts(store, session)[0]
        assert ["new.py" in text for text in shown(agent)] == [False, True]
        assert "https://example.org/x was not opened" in agent.text()
