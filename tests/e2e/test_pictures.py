"""Pictures through the real agent: from the editor to the model and back, refused ones, and sessions loaded again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64decode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from engine.session.pictures import WITHDRAWN
from tests.support.agents import Agent
from tests.support.commands import COMMAND, SECONDS
from tests.support.llm_answers import chat
from tests.support.llm_server import Answer, LlmServer, llm_server
from tests.support.pictures import SVG, bomb, image_block, opened, png
from tests.support.scripts import Gate, load, prompt_params, runs, scripted

pytestmark = pytest.mark.slow
CHAT = "provider:openai-chat:gpt-5"
TOO_LARGE = (
    b'{"error": {"message": "messages.0.content.1.image: image exceeds the maximum size", '
    b'"type": "invalid_request_error"}}'
)
NO_VISION = b'{"error": {"message": "this model does not support image input", "type": "invalid_request_error"}}'


def images(body: dict[str, Any]) -> list[bytes]:
    """The pictures of a chat completion's request."""
    parts = [part for message in body["messages"] for part in message["content"] or () if isinstance(part, dict)]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    return [b64decode(url.partition("base64,")[2]) for url in urls]


def texts(body: dict[str, Any]) -> str:
    return "\n".join(
        part if isinstance(part, str) else part.get("text", "")
        for message in body["messages"]
        for part in ([message["content"]] if isinstance(message["content"], str) else message["content"] or ())
    )


def agent_of(tmp_path: Path, server: LlmServer, model: str = CHAT, **env: str) -> Agent:
    return Agent(tmp_path / "state", "--model", model, env={**server.environment(), **env})


def test_a_picture_reaches_the_model_and_comes_back_after_a_load(tmp_path: Path) -> None:
    with llm_server(chat("Red."), chat("Still red.")) as server:
        with agent_of(tmp_path, server) as agent:
            assert agent.initialize()["agentCapabilities"]["promptCapabilities"]["image"] is True
            session = agent.new_session(tmp_path)
            block = image_block(png(3000, 1500), uri="file:///w/red.png")
            assert agent.prompt(session, "which color?", block) == "end_turn"
            (sent,) = images(server.asked[0].body)
            assert opened(sent).size == (1568, 784)
            assert "which color?\n[picture red.png, 1568x784, " in texts(server.asked[0].body)
        with agent_of(tmp_path, server) as again:
            again.initialize()
            load(again, session, tmp_path)
            text, shown = [update["content"] for update in again.updates("user_message_chunk")]
            assert text == {"type": "text", "text": "which color?"}
            assert (shown["type"], shown["mimeType"], shown["uri"]) == ("image", "image/png", "file:///w/red.png")
            assert b64decode(shown["data"]) == sent
            again.prompt(session, "sure?")
            assert images(server.asked[1].body) == [sent]


def test_bad_pictures_are_told_and_the_turn_goes_on(tmp_path: Path) -> None:
    with llm_server(chat("I see nothing.")) as server, agent_of(tmp_path, server) as agent:
        session = agent.open(tmp_path)
        blocks = [image_block(bomb()), image_block(b"nothing"), image_block(SVG, "image/svg+xml")]
        assert agent.prompt(session, "look", *blocks) == "end_turn"
        assert images(server.asked[0].body) == []
        for said in (agent.text(), texts(server.asked[0].body)):
            assert "40,000 x 40,000 pixels" in said
            assert "the picture cannot be read" in said
            assert "only PNG, JPEG, GIF and WebP" in said


def test_a_refused_picture_is_withdrawn_and_never_sent_again(tmp_path: Path) -> None:
    answers = (chat("Blue."), Answer(400, (TOO_LARGE,)), chat("Gone."), chat("Hello."))
    with llm_server(*answers) as server:
        with agent_of(tmp_path, server) as agent:
            session = agent.open(tmp_path)
            agent.prompt(session, "one", image_block(png(9, 9, (0, 0, 255))))
            assert agent.prompt(session, "two", image_block(png(7, 7))) == "end_turn"
            accepted, refused = images(server.asked[1].body)
            assert images(server.asked[2].body) == [accepted]
            assert WITHDRAWN in texts(server.asked[2].body)
            assert agent.text().count("image exceeds the maximum size") == 1
            assert "Gone." in agent.text()
        with agent_of(tmp_path, server) as again:
            again.initialize()
            load(again, session, tmp_path)
            again.prompt(session, "three", image_block(png(7, 7)))
            assert images(server.asked[3].body) == [accepted]
            assert refused not in images(server.asked[3].body)


def test_a_model_that_says_it_takes_none_is_asked_without(tmp_path: Path) -> None:
    with (
        llm_server(Answer(400, (NO_VISION,)), chat("Fine."), chat("Yes.")) as server,
        agent_of(tmp_path, server) as agent,
    ):
        session = agent.open(tmp_path)
        assert agent.prompt(session, "look", image_block(png())) == "end_turn"
        assert "models_without_pictures" in agent.text()
        agent.prompt(session, "again", image_block(png(5, 5)))
        assert [len(images(asked.body)) for asked in server.asked] == [1, 0, 0]


def link(path: Path, name: str = "") -> dict[str, Any]:
    return {"type": "resource_link", "uri": path.as_uri(), "name": name or path.name}


def test_a_linked_picture_file_is_a_picture(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "p.png").write_bytes(png(9, 5))
    (project / "text.png").write_text("no picture")
    (tmp_path / "outside.png").write_bytes(png(6, 6))
    (project / "way.png").symlink_to(tmp_path / "outside.png")
    with llm_server(chat("Seen."), chat("Still.")) as server:
        with agent_of(tmp_path, server) as agent:
            session = agent.open(project)
            others = [link(project / "text.png"), link(tmp_path / "outside.png"), link(project / "way.png")]
            blocks = [image_block(png(4, 4)), *others, link(project / "p.png"), image_block(png(3, 3))]
            assert agent.prompt(session, "look", *blocks, seconds=60) == "end_turn"
            assert [opened(each).size for each in images(server.asked[0].body)] == [(4, 4), (9, 5), (3, 3)]
            assert "[picture p.png, 9x5, " in texts(server.asked[0].body)
        with agent_of(tmp_path, server) as again:
            again.initialize()
            load(again, session, project)
            shown = [update["content"] for update in again.updates("user_message_chunk")]
            assert [block["type"] for block in shown] == ["text", "image", *["resource_link"] * 3, "image", "image"]
            assert shown[5]["uri"] == (project / "p.png").as_uri()
            again.prompt(session, "again")
            assert len(images(server.asked[1].body)) == 3


def test_a_linked_picture_that_steers(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    (tmp_path / "p.png").write_bytes(png(9, 5))
    answers = (chat("", json.dumps({"source": gate.source})), chat("Seen."))
    with llm_server(*answers) as server, agent_of(tmp_path, server) as agent:
        session = agent.open(tmp_path)
        running = agent.begin_prompt(session, "wait")
        agent.until(runs)
        gate.reached()
        params = prompt_params(session, "look", "steer")
        agent.begin("session/prompt", {**params, "prompt": [*params["prompt"], link(tmp_path / "p.png")]})
        agent.call("session/list", {})  # so that the prompt has been taken
        gate.release()
        assert agent.response(running)["result"]["stopReason"] == "end_turn"
        assert [opened(each).size for each in images(server.asked[1].body)] == [(9, 5)]


def test_a_mentioned_picture_in_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(png(9, 5))
    with llm_server(chat("Seen.")) as server:
        subprocess.run(
            [*COMMAND, "run", "--model", CHAT, "-p", "What is @p.png?"],
            cwd=tmp_path,
            check=True,
            capture_output=True,
            env={**os.environ, **server.environment(), "REWINDOW_STATE_DIR": str(tmp_path / "state")},
            timeout=60,
        )
        assert [opened(each).size for each in images(server.asked[0].body)] == [(9, 5)]


def test_a_linked_picture_without_a_model_is_a_view(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(png(9, 5))
    with Agent(tmp_path / "state") as agent:
        session = agent.open(tmp_path)
        agent.prompt(session, "p_png.title", link(tmp_path / "p.png"), seconds=60)
        assert "p.png" in agent.text()


# --- results of statements -------------------------------------------------------------------------------------------

PLOT = """def plot():
    from matplotlib.figure import Figure
    figure = Figure(figsize=(2, 1), dpi=100)
    figure.subplots().plot([1, 2, int(open("height").read())])
    return figure
plot()"""


def shown(agent: Agent) -> list[dict[str, Any]]:
    """The content of the last statement's card."""
    return [block["content"] for block in agent.updates("tool_call_update")[-1]["content"]]


def test_a_figure_reaches_editor_and_model_and_comes_back(tmp_path: Path) -> None:
    (tmp_path / "height").write_text("3")
    source = json.dumps({"source": PLOT})
    with llm_server(chat("", source), chat("A line."), chat("Still.")) as server:
        with agent_of(tmp_path, server) as agent:
            session = agent.open(tmp_path)
            assert agent.prompt(session, "plot", seconds=60) == "end_turn"
            (sent,) = images(server.asked[1].body)
            assert opened(sent).format == "PNG"
            assert "[picture statement-1, " in texts(server.asked[1].body)
            picture = shown(agent)[-1]
            assert b64decode(picture["data"]) == sent
        with agent_of(tmp_path, server) as again:
            again.initialize()
            load(again, session, tmp_path)
            calls = [*again.updates("tool_call"), *again.updates("tool_call_update")]
            assert picture in [block["content"] for call in calls for block in call.get("content") or ()]
            assert again.prompt(session, "/replay 1", seconds=60) == "end_turn"
            assert "1 statement ran again, with their recorded answers: none differs." in again.text()
            assert again.prompt(session, "sure?", seconds=60) == "end_turn"
            assert images(server.asked[2].body) == [sent]


def test_a_bad_representation_is_a_line_and_the_statement_succeeds(tmp_path: Path) -> None:
    source = "class {0}:\n    def __repr__(self): return 'one {0}'\n    def _repr_png_(self): {1}\n{0}()"
    with Agent(tmp_path / "state") as agent:
        session = agent.open(tmp_path)
        agent.prompt(session, source.format("A", "raise ValueError('no luck')"))
        assert "one A\n[_repr_png_ raised ValueError: no luck]" in agent.text()
        agent.prompt(session, source.format("B", "return b'no picture'"))
        assert "one B" in agent.text()
        assert "[picture statement-2, 10 bytes: the picture cannot be read]" in agent.text()


def test_a_view_of_a_picture_shows_it_within_its_budget(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(png(1000, 1000, (0, 255, 0)))
    sources = ('view("p.png")', 'view("p.png", tokens=100)', 'view("p.png", lod=2)', 'x = view("p.png")')
    with (
        llm_server(*(chat("", json.dumps({"source": each})) for each in sources), chat("Green.")) as server,
        agent_of(tmp_path, server) as agent,
    ):
        session = agent.open(tmp_path)
        agent.prompt(session, "look", seconds=60)
        sent = images(server.asked[-1].body)
        assert [opened(each).size for each in sent] == [(1000, 1000), (273, 273)]
        assert texts(server.asked[-1].body).count("[picture p.png, 1000x1000, ") == 1
        assert "(binary, " in texts(server.asked[-1].body)
        assert agent.prompt(session, "/replay 1", seconds=60) == "end_turn"
        assert "none differs" in agent.text()


def test_pictures_are_exported_and_imported(tmp_path: Path) -> None:
    environ = {**os.environ, "REWINDOW_STATE_DIR": str(tmp_path / "state")}

    def run(*arguments: str) -> bytes:
        return subprocess.run(
            [*COMMAND, *arguments], check=True, capture_output=True, env=environ, timeout=SECONDS
        ).stdout

    (tmp_path / "height").write_text("3")
    with Agent(tmp_path / "state") as agent:
        session = agent.open(tmp_path)
        agent.prompt(session, PLOT, image_block(png(9, 9)), seconds=60)
        before = agent.updates("agent_message_chunk")[-1]["content"]
        assert before["type"] == "image"
    exported = tmp_path / "session.jsonl"
    exported.write_bytes(run("export", session))
    run("import", str(exported), "--as", "ses_copy")
    with Agent(tmp_path / "state") as again:
        again.initialize()
        load(again, "ses_copy", tmp_path)
        assert again.updates("agent_message_chunk")[-1]["content"] == before
        given = again.updates("user_message_chunk")[-1]["content"]
        assert opened(b64decode(given["data"])).size == (9, 9)


# --- MCP servers ------------------------------------------------------------------------------------------------------

SERVER = """import json, sys
blocks = json.load(open(sys.argv[1]))
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {
        "initialize": {
            "protocolVersion": message.get("params", {}).get("protocolVersion"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "camera", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": blocks},
    }.get(message["method"], {})
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def contents_of(agent: Agent) -> list[dict[str, Any]]:
    """All that cards show beside text."""
    calls = [*agent.updates("tool_call"), *agent.updates("tool_call_update")]
    found = [block["content"] for call in calls for block in call.get("content") or () if block["type"] == "content"]
    return [content for content in found if content["type"] != "text"]


def test_contents_of_a_server_reach_the_editor_untouched_and_the_model_as_pictures(tmp_path: Path) -> None:
    large, small = png(3000, 1500), png(7, 5)
    sound = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
    blob = {"type": "resource", "resource": {"uri": "camera:/2", "blob": "AAEC", "mimeType": "application/x-raw"}}
    blocks = [{"type": "text", "text": "Two views."}, image_block(large), image_block(small), sound, blob]
    (tmp_path / "blocks.json").write_text(json.dumps(blocks))
    (tmp_path / "server.py").write_text(SERVER)
    arguments = [str(tmp_path / "server.py"), str(tmp_path / "blocks.json")]
    servers = [{"name": "camera", "command": sys.executable, "args": arguments, "env": []}]
    with llm_server(chat("", json.dumps({"source": "camera.look()"})), chat("Fine.")) as server:
        with agent_of(tmp_path, server) as agent:
            agent.initialize()
            session = agent.call("session/new", {"cwd": str(tmp_path), "mcpServers": servers})["sessionId"]
            assert agent.prompt(session, "look", seconds=60) == "end_turn"
            assert [opened(each).size for each in images(server.asked[1].body)] == [(1568, 784), (7, 5)]
            assert "Two views." in texts(server.asked[1].body)
            assert contents_of(agent) == blocks[1:]
        with agent_of(tmp_path, server) as again:
            again.initialize()
            load(again, session, tmp_path)
            assert contents_of(again) == blocks[1:]


# --- all of it, after all that brings it back -------------------------------------------------------------------------


def drawn(updates: Any) -> set[str]:
    """What updates draw that is no plain text: pictures by their pixels, sounds, blobs and tables by their contents.

    A re-run's card has the picture of a server's answer as it is kept, the card of the call as it came.
    """
    if isinstance(updates, list):
        return {found for each in updates for found in drawn(each)}
    if not isinstance(updates, dict):
        return set()
    if updates.get("type") == "image":
        picture = opened(b64decode(updates["data"])).convert("RGB")
        return {f"{picture.size} {sha256(picture.tobytes()).hexdigest()}"}
    is_drawn = updates.get("type") in ("audio", "resource") or "| --- |" in str(updates.get("text", ""))
    inner = {found for each in updates.values() for found in drawn(each)}
    return {json.dumps(updates, sort_keys=True)} if is_drawn else inner


TABLE = "import pandas\npandas.DataFrame({'n': [1, 2], 'name': ['a|b', '<b>']})"


def test_all_that_is_drawn_comes_back_the_same(tmp_path: Path, project: Path) -> None:
    (project / "height").write_text("3")
    (project / "p.png").write_bytes(png(40, 30, (0, 0, 255)))
    sound = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
    blob = {"type": "resource", "resource": {"uri": "camera:/2", "blob": "AAEC", "mimeType": "application/x-raw"}}
    (tmp_path / "blocks.json").write_text(json.dumps([image_block(png(7, 5)), sound, blob]))
    (tmp_path / "server.py").write_text(SERVER)
    arguments = [str(tmp_path / "server.py"), str(tmp_path / "blocks.json")]
    servers = [{"name": "camera", "command": sys.executable, "args": arguments, "env": []}]
    state = tmp_path / "state"
    sources = (PLOT, TABLE, 'view("p.png")', "camera.look()")
    model = scripted(tmp_path, *({"statement": each} for each in sources), {"text": "Fine."})

    def shown_by(session: str, *typed: str, version: int = 1) -> set[str]:
        """What an editor draws that opens the session with its history, and then types something."""
        with Agent(state, "--model", "direct") as agent:
            where = {"sessionId": session, "cwd": str(project)}
            if version == 1:
                agent.initialize()
                agent.call("session/load", {**where, "mcpServers": servers}, seconds=60)
            else:
                agent.initialize_2()
                named = [{"type": "stdio", **each} for each in servers]
                agent.call("session/resume", {**where, "mcpServers": named, "replayFrom": {"type": "start"}})
            found = drawn(agent.updates())
            for text in typed:
                assert agent.prompt(session, text, seconds=60) == "end_turn"
            return found

    with Agent(state, "--model", model) as agent:
        agent.initialize()
        session = agent.call("session/new", {"cwd": str(project), "mcpServers": servers})["sessionId"]
        assert agent.prompt(session, "draw", image_block(png(9, 9)), seconds=60) == "end_turn"
        live = drawn(agent.updates())
    # A live prompt is not sent back in version 1.
    assert len(live) == 6
    whole = shown_by(session, "/replay 1 4", "/rewind 2")
    assert (len(whole), live < whole) == (7, True)
    back = shown_by(session, "/branch main")  # to the end of statement 2: prompt, figure and table
    assert (len(back), back < whole) == (3, True)
    assert shown_by(session) == whole
    assert shown_by(session, version=2) == whole
    environ = {**os.environ, "REWINDOW_STATE_DIR": str(state)}
    exported = tmp_path / "session.jsonl"
    for command in (("export", session, "--output", str(exported)), ("import", str(exported), "--as", "ses_copy")):
        subprocess.run([*COMMAND, *command], check=True, capture_output=True, env=environ, timeout=SECONDS)
    assert shown_by("ses_copy") == whole
    assert shown_by("ses_copy", version=2) == whole
