"""Several connections of one host: lost ones, shared sessions, and questions that everyone is asked."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.support.fake_editor import FakeEditor
from tests.support.gates import Gate
from tests.support.memory import Client, shared_host
from tests.support.scripts import asks_permission, prompt_params, scripted
from tests.support.transcripts import selected

pytestmark = pytest.mark.anyio


async def ready(client: Client, version: int = 1) -> Client:
    await client.call("initialize", {"protocolVersion": version, "clientCapabilities": {}})
    return client


def states(client: Client) -> list[str]:
    return [update["state"] for update in client.updates("state_update")]


async def test_a_turn_outlives_its_connection(tmp_path: Path, gate: Gate) -> None:
    async with shared_host(tmp_path) as connect:
        first = connect()
        session = await first.open(tmp_path)
        await first.begin_prompt(session, f"{gate.source}; print('the end')")
        await gate.reached()
        await first.close()
        second = await ready(connect())
        await second.load(session, tmp_path)
        gate.release()
        await second.seen(lambda message: "the end" in str(message) and "completed" in str(message))
        assert await second.prompt(session, "20 + 3") == "end_turn"
        assert "23" in second.text()


async def test_a_remote_client_is_offered_no_setup_in_its_terminal(tmp_path: Path) -> None:
    async with shared_host(tmp_path) as connect:
        ways = (await connect().initialize(auth={"terminal": True}))["authMethods"]
        assert [way["id"] for way in ways] == ["stored-keys"]


async def test_prompts_of_others_are_shown_and_their_own_are_not(tmp_path: Path) -> None:
    async with shared_host(tmp_path) as connect:
        first, second = await ready(connect()), await ready(connect())
        session = await first.new_session(tmp_path)
        await second.load(session, tmp_path)
        await first.prompt(session, "1 + 1")
        await second.settled()
        assert first.updates("user_message_chunk") == []
        shown = [update["content"]["text"] for update in second.updates("user_message_chunk")]
        assert shown == ["1 + 1"]
        assert second.text() == "2"


async def test_another_client_of_version_2_is_told_of_a_turn(tmp_path: Path) -> None:
    async with shared_host(tmp_path) as connect:
        first, second = await ready(connect()), await ready(connect(), 2)
        session = await first.new_session(tmp_path)
        await second.load(session, tmp_path, "session/resume")
        before = len(states(second))
        await first.prompt(session, "1 + 1")
        await second.settled()
        assert states(second)[before:] == ["running", "idle"]


async def test_a_client_that_loads_during_a_turn_is_told_that_it_runs(tmp_path: Path, gate: Gate) -> None:
    async with shared_host(tmp_path) as connect:
        first = connect()
        session = await first.open(tmp_path)
        await first.begin_prompt(session, f"{gate.source}; 1")
        await gate.reached()
        second = await ready(connect(), 2)
        await second.load(session, tmp_path, "session/resume")
        assert states(second) == ["running"]
        gate.release()
        await second.until(lambda _: states(second) == ["running", "idle"])


def asking(tmp_path: Path) -> tuple[str, Path]:
    file = tmp_path / "written"
    source = f"import os; os.close(os.open({str(file)!r}, os.O_CREAT))"
    return scripted(tmp_path, {"statement": source}, {"text": "Done."}), file


async def test_everyone_is_asked_and_the_first_answer_counts(tmp_path: Path) -> None:
    model, file = asking(tmp_path)
    async with shared_host(tmp_path, model=model) as connect:
        first, second = await ready(connect(None)), await ready(connect(None))
        session = await first.new_session(tmp_path)
        await second.load(session, tmp_path)
        prompt = await first.begin_prompt(session, "write")
        asked = await first.until(asks_permission)
        await second.answer(await second.until(asks_permission), selected("allow_once"))
        withdrawn = await first.until(lambda message: message.get("method") == "$/cancel_request")
        assert withdrawn["params"]["requestId"] == asked["id"]
        assert (await first.response(prompt))["result"]["stopReason"] == "end_turn"
        assert file.exists()


async def test_a_waiting_question_is_asked_again_on_the_next_connection(tmp_path: Path) -> None:
    model, file = asking(tmp_path)
    async with shared_host(tmp_path, model=model) as connect:
        first = connect(None)
        session = await first.open(tmp_path)
        await first.begin_prompt(session, "write")
        await first.until(asks_permission)
        await first.close()
        second = await ready(connect(None))
        loading = await second.begin("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
        await second.response(loading)
        question = await second.until(asks_permission)
        assert not file.exists()
        await second.answer(question, selected("allow_once"))
        await second.seen(lambda message: "Done." in str(message))
        assert file.exists()


async def test_a_question_that_nobody_can_answer_is_dismissed(tmp_path: Path) -> None:
    model, file = asking(tmp_path)
    async with shared_host(tmp_path, model=model, question_seconds=0.01) as connect:
        first = connect(None)
        session = await first.open(tmp_path)
        await first.begin_prompt(session, "write")
        await first.until(asks_permission)
        await first.close()
        second = await ready(connect(None))
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(10):
            while True:
                await second.load(session, tmp_path)
                if "cancelled" in str(second.received[-12:]) or "rejected" in str(second.received):
                    break
                await anyio.sleep(0.01)
        assert not file.exists()
        assert not any(map(asks_permission, second.received))


async def test_a_question_waits_while_one_of_two_connections_is_left(tmp_path: Path) -> None:
    model, file = asking(tmp_path)
    async with shared_host(tmp_path, model=model, question_seconds=0.01) as connect:
        first, second = await ready(connect(None)), await ready(connect(None))
        session = await first.new_session(tmp_path)
        await second.load(session, tmp_path)
        await first.begin_prompt(session, "write")
        question = await second.until(asks_permission)
        await first.close()
        await anyio.sleep(0.05)
        await second.answer(question, selected("allow_once"))
        await second.seen(lambda message: "Done." in str(message))
        assert file.exists()


async def test_close_leaves_the_session_to_the_others(tmp_path: Path, gate: Gate) -> None:
    async with shared_host(tmp_path) as connect:
        first, second = await ready(connect()), await ready(connect())
        session = await first.new_session(tmp_path)
        await second.load(session, tmp_path)
        running = await second.begin_prompt(session, f"{gate.source}; print('kept')")
        await gate.reached()
        waiting = await first.begin_prompt(session, "1 + 1")
        assert await first.call("session/close", {"sessionId": session}) == {}
        gate.release()
        assert (await second.response(running))["result"]["stopReason"] == "end_turn"
        stopped = next(message for message in first.received if message.get("id") == waiting)
        assert stopped["result"]["stopReason"] == "cancelled"
        assert await second.prompt(session, "5 + 5") == "end_turn"
        error = await first.error("session/prompt", prompt_params(session, "1"))
        assert error["code"] == -32002


async def test_what_another_client_has_is_not_removed_or_moved(tmp_path: Path) -> None:
    async with shared_host(tmp_path) as connect:
        first, second = await ready(connect()), await ready(connect())
        session = await first.new_session(tmp_path)
        await first.prompt(session, "1")
        for method in ("session/delete", "session/archive"):
            assert "another client" in (await second.error(method, {"sessionId": session}))["message"]
        moved = {"sessionId": session, "cwd": "/", "mcpServers": []}
        assert "for another client" in (await second.error("session/load", moved))["message"]
        assert await first.prompt(session, "2") == "end_turn"


async def test_an_abandoned_session_is_closed_and_opens_again_with_its_names(tmp_path: Path) -> None:
    async with shared_host(tmp_path, idle_seconds=0.01) as connect:
        first = connect()
        session = await first.open(tmp_path)
        await first.prompt(session, "kept = 7")
        await first.close()
        await anyio.sleep(0.1)  # the session is closed meanwhile
        second = await ready(connect())
        status = await second.call("session/status", {"sessionId": session})
        assert status["status"] != "open", status
        await second.load(session, tmp_path)
        await second.prompt(session, "kept * 6")
        assert "42" in second.text()


async def test_a_load_that_is_lost_leaves_nothing_behind(tmp_path: Path) -> None:
    async with shared_host(tmp_path) as connect:
        first = connect()
        session = await first.open(tmp_path)
        await first.prompt(session, "1")
        await first.close()
        for _ in range(3):
            lost = await ready(connect())
            await lost.begin("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
            await lost.close()
        last = await ready(connect())
        await last.load(session, tmp_path)
        assert await last.prompt(session, "40 + 2") == "end_turn"
        assert last.text().endswith("42")


async def test_files_are_read_in_the_editor_of_a_connection_that_is_left(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("disk")
    async with shared_host(tmp_path) as connect:
        first, second = connect(), connect()
        for client, text in ((first, "first buffer"), (second, "second buffer")):
            capabilities = {"fs": {"readTextFile": True, "writeTextFile": False}}
            await client.call("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})
            client.editor = FakeEditor()
            client.editor.hold(tmp_path / "a.txt", text)
        session = await first.new_session(tmp_path)
        await second.load(session, tmp_path)
        await second.prompt(session, "view('a.txt')")
        assert "second buffer" in str(second.updates())
        await second.close()
        await first.prompt(session, "view('a.txt', 50)")
        assert "first buffer" in str(first.updates()[-6:])
