"""Questions about changes and commands: one for each, complete, safe with any answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from acp_adapter.questions import ALLOW_REST
from engine.log.store.memory import MemoryStore
from tests.support.memory import Client, in_memory
from tests.support.scripts import asks_permission, last_value, reason, scripted, transcript
from tests.support.transcripts import selected

pytestmark = pytest.mark.anyio

BOTH = "write('new.py', 'x = 1\\n')\nedit('a.py', 'old', 'new')"
TRIED = """\
def attempt(act):
    try:
        act()
        return 'done'
    except PermissionError as error:
        return str(error)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "a.py").write_text("an old line\n")
    (folder / "src" / "b.py").write_text("one\ntwo\n")
    return folder


def asking(tmp_path: Path, *statements: str) -> str:
    return scripted(tmp_path, *(reply for each in statements for reply in ({"statement": each}, {"text": "Done."})))


async def about_acts(agent: Client, project: Path) -> str:
    session = await agent.open(project)
    params = {"sessionId": session, "configId": "_ask_about", "value": "acts"}
    await agent.call("session/set_config_option", params)
    return session


def questions(agent: Client) -> list[dict[str, Any]]:
    return [message["params"] for message in agent.received if asks_permission(message)]


def calls(agent: Client) -> list[dict[str, Any]]:
    return list(transcript(agent.updates())["calls"].values())


async def test_one_question_covers_a_statement(store: MemoryStore, tmp_path: Path, project: Path) -> None:
    async with in_memory(tmp_path, store=store, model=asking(tmp_path, BOTH)) as agent:
        session = await agent.open(project)
        assert await agent.prompt(session, "go") == "end_turn"
    (asked,) = questions(agent)
    assert asked["toolCall"]["rawInput"]["command"] == BOTH
    assert (project / "new.py").read_text() == "x = 1\n"
    assert [call["title"] for call in calls(agent)[1:]] == ["Create new.py (+1)", "Edit a.py (+1 -1)"]


async def test_asking_about_acts_shows_each_diff(store: MemoryStore, tmp_path: Path, project: Path) -> None:
    async with in_memory(tmp_path, store=store, model=asking(tmp_path, BOTH)) as agent:
        session = await about_acts(agent, project)
        assert await agent.prompt(session, "go") == "end_turn"
    acts = calls(agent)
    assert [asked["toolCall"]["toolCallId"] for asked in questions(agent)] == [act["toolCallId"] for act in acts]
    assert [asked["toolCall"]["content"] for asked in questions(agent)] == [
        [{"type": "diff", "path": str(project / "new.py"), "oldText": None, "newText": "x = 1\n"}],
        [{"type": "diff", "path": str(project / "a.py"), "oldText": "an old line\n", "newText": "an new line\n"}],
    ]
    assert [act["content"] for act in acts] == [asked["toolCall"]["content"] for asked in questions(agent)]
    assert {call["status"] for call in acts} == {"completed"}
    assert (project / "a.py").read_text() == "an new line\n"


@pytest.mark.parametrize(
    ("option", "asked", "written"),
    [
        pytest.param("allow_once", 3, True, marks=pytest.mark.slow),
        ("allow_always", 1, True),
        ("allow_statement", 2, True),
        pytest.param("reject_once", 3, False, marks=pytest.mark.slow),
        pytest.param("reject_always", 1, False, marks=pytest.mark.slow),
    ],
)
async def test_answer_covers_once_or_its_scope(
    store: MemoryStore, tmp_path: Path, project: Path, option: str, asked: int, written: bool
) -> None:
    acts = [f"lambda: write('src/{name}.py', 'x')" for name in "cde"]
    model = asking(tmp_path, f"{TRIED}[attempt(act) for act in ({', '.join(acts)})]")
    async with in_memory(tmp_path, store=store, model=model, permission=option) as agent:
        session = await about_acts(agent, project)
        assert await agent.prompt(session, "go") == "end_turn"
    assert len(questions(agent)) == asked
    names = [each["name"] for each in questions(agent)[0]["options"]]
    assert names == ["Allow", "Always allow changes of src/", "Reject", "Always reject changes of src/"]
    for further in questions(agent)[1:]:
        assert [each["name"] for each in further["options"]] == [
            *names[:2],
            ALLOW_REST,
            *names[2:],
        ]
    assert [(project / "src" / f"{name}.py").exists() for name in "cde"] == [written] * 3
    said = "done" if written else "The user rejected this change."
    assert last_value(agent) == repr([said] * 3)


# --- unusual answers --------------------------------------------------------------------------------------------------


async def test_cancel_during_a_question_ignores_late_answers(store: MemoryStore, tmp_path: Path, project: Path) -> None:
    model = scripted(tmp_path, {"statement": BOTH}, {"statement": "write('later.py', 'x')"}, {"text": "Done."})
    async with in_memory(tmp_path, store=store, model=model, permission=None) as agent:
        session = await about_acts(agent, project)
        prompt = await agent.begin_prompt(session, "go")
        question = await agent.until(asks_permission)
        await agent.notify("session/cancel", {"sessionId": session})
        assert reason(await agent.response(prompt)) == "cancelled"
        await agent.answer(question, selected("allow_always"))
        await agent.quiet()
        assert not (project / "new.py").exists()
        assert {call["status"] for call in calls(agent)} == {"failed"}
        agent.permission = "allow_once"
        assert await agent.prompt(session, "once more") == "end_turn"
    assert len(questions(agent)) == 2
    assert (project / "later.py").exists()


ODD_ANSWERS: tuple[dict[str, Any], ...] = (
    {"result": {"outcome": {"outcome": "selected", "optionId": "allow_everything"}}},
    {"result": {"outcome": {"outcome": "selected"}}},
    {"result": None},
    {"error": {"code": -32603, "message": "no user here"}},
)


@pytest.mark.slow
async def test_unclear_answers_reject_the_act(store: MemoryStore, tmp_path: Path, project: Path) -> None:
    source = f"{TRIED}[attempt(lambda: write(str(number), 'x')) for number in range({len(ODD_ANSWERS)})]"
    async with in_memory(tmp_path, store=store, model=asking(tmp_path, source), permission=None) as agent:
        session = await about_acts(agent, project)
        prompt = await agent.begin_prompt(session, "go")
        for answer in ODD_ANSWERS:
            question = await agent.until(asks_permission)
            for _ in range(2):  # an editor may say it twice
                await agent.write(json.dumps({"jsonrpc": "2.0", "id": question["id"], **answer}).encode() + b"\n")
        assert reason(await agent.response(prompt)) == "end_turn"
    assert last_value(agent) == repr(["The user rejected this change."] * len(ODD_ANSWERS))


# --- commands ---------------------------------------------------------------------------------------------------------

TERMINALS: dict[str, Any] = {"_meta": {"terminal_output": True}}


def texts(call: dict[str, Any]) -> list[str]:
    return [block["content"]["text"] for block in call["content"]]


async def test_command_question_and_result(store: MemoryStore, tmp_path: Path, project: Path) -> None:
    model = asking(tmp_path, "bash('ls; exit 3', cwd='src').code")
    async with in_memory(tmp_path, store=store, model=model) as agent:
        session = await about_acts(agent, project)
        assert await agent.prompt(session, "go") == "end_turn"
    (asked,) = questions(agent)
    assert asked["toolCall"]["title"] == "Run ls; exit 3"
    assert texts(asked["toolCall"]) == ["```sh\nls; exit 3\n```", f"```\nin {project / 'src'}\n```"]
    (command,) = calls(agent)
    assert (command["kind"], command["status"]) == ("execute", "completed")
    assert texts(command) == ["```\nb.py\n```", "exit code 3"]
    assert command["rawOutput"]["exitCode"] == 3
    assert last_value(agent) == "3"


@pytest.mark.slow
async def test_unoffered_always_counts_once(store: MemoryStore, tmp_path: Path, project: Path) -> None:
    # A command that holds a secret cannot be remembered, because the log does not store the secret.
    model = asking(tmp_path, "bash('echo s3cret-value > a')\nbash('echo s3cret-value > b')")
    environ = {"A_TOKEN": "s3cret-value"}
    async with in_memory(tmp_path, store=store, model=model, permission="allow_always", environ=environ) as agent:
        session = await about_acts(agent, project)
        assert await agent.prompt(session, "go") == "end_turn"
    assert [[option["kind"] for option in asked["options"]] for asked in questions(agent)] == [
        ["allow_once", "reject_once"]
    ] * 2
    assert (project / "b").exists()


async def test_each_command_gets_a_terminal(store: MemoryStore, tmp_path: Path, project: Path) -> None:
    model = asking(tmp_path, "bash('echo one; echo two >&2')\nbash('exit 4').code")
    async with in_memory(tmp_path, store=store, model=model) as agent:
        await agent.initialize(**TERMINALS)
        session = await agent.new_session(project)
        assert await agent.prompt(session, "go") == "end_turn"
    told: dict[str, list[Any]] = {}
    for update in agent.updates():
        for key, value in update.get("_meta", {}).items():
            told.setdefault(update.get("toolCallId", ""), []).append((key, value))
    first, second = [call["toolCallId"] for call in calls(agent)[1:]]
    assert [key for key, _ in told[first]][:1] == ["terminal_info"]
    assert "".join(value["data"] for key, value in told[first] if key == "terminal_output") == "one\ntwo\n"
    assert told[first][-1] == ("terminal_exit", {"terminal_id": first, "exit_code": 0, "signal": None})
    assert told[second][-1] == ("terminal_exit", {"terminal_id": second, "exit_code": 4, "signal": None})
    assert [call["content"] for call in calls(agent)[1:]] == [
        [{"type": "terminal", "terminalId": call}] for call in (first, second)
    ]


@pytest.mark.parametrize(
    "capabilities", [pytest.param({}, id="texts"), pytest.param(TERMINALS, id="terminals", marks=pytest.mark.slow)]
)
async def test_load_shows_acts_like_live(
    store: MemoryStore, tmp_path: Path, project: Path, capabilities: dict[str, Any]
) -> None:
    model = asking(tmp_path, f"{BOTH}\nbash('cat new.py; exit 1')\ngrep('one')\nread('nothing')")
    async with in_memory(tmp_path, store=store, model=model) as agent:
        await agent.initialize(**capabilities)
        session = await agent.new_session(project)
        assert await agent.prompt(session, "go") == "end_turn"
        live = calls(agent)
        del agent.received[:]
        await agent.load(session, project)
    assert [shown_of(call) for call in calls(agent)] == [shown_of(call) for call in live]
    assert len(live) == 6
    assert {call["status"] for call in live} == {"completed", "failed"}


def shown_of(call: dict[str, Any]) -> dict[str, Any]:
    """The final display of a call; terminals are filled piece by piece."""
    return {key: value for key, value in call.items() if key != "_meta"}


@pytest.mark.parametrize(
    "capabilities", [pytest.param({}, id="texts"), pytest.param(TERMINALS, id="terminals", marks=pytest.mark.slow)]
)
async def test_cancelled_command_ends_before_its_turn(
    store: MemoryStore, tmp_path: Path, project: Path, capabilities: dict[str, Any]
) -> None:
    model = asking(tmp_path, "bash('echo begun; sleep 100')")
    async with in_memory(tmp_path, store=store, model=model) as agent:
        await agent.initialize(**capabilities)
        session = await agent.new_session(project)
        prompt = await agent.begin_prompt(session, "go")
        await agent.until(lambda message: "begun\n" in json.dumps(message, ensure_ascii=False).replace("\\n", "\n"))
        await agent.notify("session/cancel", {"sessionId": session})
        assert reason(await agent.response(prompt)) == "cancelled"
        await agent.quiet()
    assert [call["status"] for call in calls(agent)] == ["failed"]
