"""One conversation in both versions of the protocol: what an editor makes of it is the same.

Each version has its own editor here, which drives the agent and reduces the messages to their meaning: without ids, and
with the names of no version.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from base64 import b64decode
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.agents import Agent
from tests.support.scripts import Gate, asks_permission, scripted
from tests.support.transcripts import Message, is_response_to, selected

ACTS = 'write("new.txt", "one\\ntwo\\n")\nedit("notes.md", "old", "new")\nbash("echo out; exit 3")'
PLAN = 'plan([{"content": "Read it", "status": "completed"}, {"content": "Fix it", "priority": "high"}])'
REFUSED = 'bash("touch never")'
QUESTION = 'print([ask("Which one?", ["this", "that"])])'


SHOWN = {"_meta": {"terminal_output": True}, "session": {"notices": {}}}
"""What an editor of version 1 offers, and version 2 demands of each."""


class Question(NamedTuple):
    """A question, and what was chosen."""

    title: str
    options: tuple[tuple[str, str], ...]
    chosen: str


class Card(NamedTuple):
    """A tool call as it was last."""

    title: str
    kind: str
    name: str | None
    is_ok: bool
    texts: tuple[str, ...]
    changes: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]
    terminals: tuple[tuple[str, int | None], ...]


class Meaning(NamedTuple):
    """What an editor shows."""

    messages: list[tuple[str, str]]
    cards: list[Card]
    questions: list[Question]
    plan: list[tuple[str, str, str]]
    options: dict[str, str]
    commands: list[str]
    title: str | None
    ends: list[str]


class Editor(ABC):
    """An editor of one version."""

    def __init__(self, agent: Agent, cwd: Path) -> None:
        self.agent = agent
        self.cwd = cwd
        self.session = ""
        self.questions: list[Question] = []
        self.ends: list[str] = []

    @abstractmethod
    def open(self) -> None:
        """Initialize, and open a session."""

    @abstractmethod
    def load(self, session: str) -> None:
        """Initialize, and open a session with its history."""

    @abstractmethod
    def set_option(self, option: str, value: str | bool) -> None: ...

    @abstractmethod
    def prompt(self, text: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Prompt, do something while the turn runs, and note how it ended."""

    @abstractmethod
    def changes(self, block: Message) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        """The path, the removed lines and the added lines of a diff."""

    @abstractmethod
    def terminals(self) -> dict[str, tuple[str, int | None]]:
        """The output and the exit code of each terminal."""

    @abstractmethod
    def plan(self) -> list[Message]: ...

    @abstractmethod
    def option_id(self, option: Message) -> str: ...

    @abstractmethod
    def question_title(self, params: Message) -> str: ...

    def close(self) -> None:
        self.agent.call("session/close", {"sessionId": self.session})

    def cancel(self) -> None:
        self.agent.notify("session/cancel", {"sessionId": self.session})

    def until(self, wanted: Callable[[Message], bool]) -> Message:
        """The next message that is wanted. Questions are answered until then."""
        while True:
            message = self.agent.next()
            assert message is not None
            if asks_permission(message):
                self._choose(message)
            if wanted(message):
                return message

    def _choose(self, question: Message) -> None:
        params = question["params"]
        options = {option["name"]: option for option in params["options"]}
        title = self.question_title(params)
        if "that" in options:
            chosen = options["that"]
        else:
            wanted = "reject_once" if "never" in title else "allow_once"
            chosen = next(option for option in options.values() if option["kind"] == wanted)
        self.agent.answer(question, selected(chosen["optionId"]))
        kinds = tuple((name, option["kind"]) for name, option in options.items())
        self.questions.append(Question(title, kinds, chosen["name"]))

    def meaning(self, since: int = 0) -> Meaning:
        """What the updates since then show."""
        updates = self.agent.updates()[since:]
        titles = [update["title"] for update in updates if "title" in update and "toolCallId" not in update]
        options = [update for update in updates if update["sessionUpdate"] == "config_option_update"][-1:]
        commands = [update for update in updates if update["sessionUpdate"] == "available_commands_update"][-1:]
        meaning = Meaning(
            [*_messages(updates).values()],
            self._cards(updates),
            self.questions,
            [(each["content"], each["priority"], each["status"]) for each in self.plan()],
            {self.option_id(each): _value(each["currentValue"]) for one in options for each in one["configOptions"]},
            [each["name"] for one in commands for each in one["availableCommands"]],
            titles[-1] if titles else None,
            self.ends,
        )
        return Meaning(*(_placeless(each, str(self.cwd.parent)) for each in meaning))

    def _cards(self, updates: Iterable[Message]) -> list[Card]:
        calls: dict[str, Message] = {}
        for update in updates:
            if "toolCallId" in update:
                calls[update["toolCallId"]] = {**calls.get(update["toolCallId"], {}), **update}
        terminals = self.terminals()
        cards: list[Card] = []
        for call in calls.values():
            blocks = call.get("content") or []
            cards.append(
                Card(
                    call["title"],
                    call["kind"],
                    call.get("name"),
                    call["status"] == "completed",
                    tuple(each["content"]["text"] for each in blocks if each["type"] == "content"),
                    tuple(self.changes(each) for each in blocks if each["type"] == "diff"),
                    tuple(terminals[each["terminalId"]] for each in blocks if each["type"] == "terminal"),
                )
            )
        return cards


class Editor1(Editor):
    """An editor of version 1 that draws terminals."""

    def open(self) -> None:
        self.agent.initialize(**SHOWN)
        self.session = self.agent.new_session(self.cwd)

    def load(self, session: str) -> None:
        self.agent.initialize(**SHOWN)
        self.session = session
        self.agent.call("session/load", {"sessionId": session, "cwd": str(self.cwd), "mcpServers": []})

    def set_option(self, option: str, value: str | bool) -> None:
        named = {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value
        params = {"sessionId": self.session, "configId": option, "value": named}
        self.agent.call("session/set_config_option", params)

    def prompt(self, text: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        asked = self.agent.begin_prompt(self.session, text)
        meanwhile()
        response = self.until(lambda message: is_response_to(message, asked))
        self.ends.append(response["result"]["stopReason"])

    def changes(self, block: Message) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        before, after = (block["oldText"] or "").splitlines(), block["newText"].splitlines()
        gone, new = [line for line in before if line not in after], [line for line in after if line not in before]
        return Path(block["path"]).name, tuple(gone), tuple(new)

    def terminals(self) -> dict[str, tuple[str, int | None]]:
        found: dict[str, tuple[str, int | None]] = {}
        for update in self.agent.updates():
            meta = update.get("_meta") or {}
            for key in ("terminal_info", "terminal_output", "terminal_exit"):
                if key in meta:
                    each = meta[key]
                    text, code = found.get(each["terminal_id"], ("", None))
                    found[each["terminal_id"]] = (text + each.get("data", ""), each.get("exit_code", code))
        return {name: (text.strip(), code) for name, (text, code) in found.items()}

    def plan(self) -> list[Message]:
        return [entry for update in self.agent.updates("plan")[-1:] for entry in update["entries"]]

    def option_id(self, option: Message) -> str:
        return option["id"]

    def question_title(self, params: Message) -> str:
        return params["toolCall"]["title"]


class Editor2(Editor):
    """An editor of version 2."""

    def open(self) -> None:
        self.agent.initialize_2()
        self.session = self.agent.call("session/new", {"cwd": str(self.cwd)})["sessionId"]

    def load(self, session: str) -> None:
        self.agent.initialize_2()
        self.session = session
        params = {"sessionId": session, "cwd": str(self.cwd), "replayFrom": {"type": "start"}}
        self.agent.call("session/resume", params)

    def set_option(self, option: str, value: str | bool) -> None:
        kind = "boolean" if isinstance(value, bool) else "id"
        params = {"sessionId": self.session, "configId": option, "type": kind, "value": value}
        self.agent.call("session/set_config_option", params)

    def prompt(self, text: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        count = len(self.agent.idle_states())
        asked = self.agent.begin_prompt(self.session, text)
        meanwhile()
        self.until(lambda _: len(self.agent.idle_states()) > count)
        self.ends.append(self.agent.idle_states()[-1]["stopReason"])
        (response,) = [message for message in self.agent.received if is_response_to(message, asked)]
        message = self.agent.updates("user_message")[-1]
        assert message["messageId"] == response["result"]["messageId"]
        assert [block["text"] for block in message["content"]] == [text]

    def changes(self, block: Message) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        (change,) = block["changes"]
        lines = block["patch"]["text"].splitlines()
        hunks = lines[next(number for number, line in enumerate(lines) if line.startswith("@@")) :]
        gone, new = ([line[1:] for line in hunks if line.startswith(mark)] for mark in "-+")
        return Path(change["path"]).name, tuple(gone), tuple(new)

    def terminals(self) -> dict[str, tuple[str, int | None]]:
        found: dict[str, tuple[str, int | None]] = {}
        for update in self.agent.updates():
            if "terminalId" in update:
                text, code = found.get(update["terminalId"], ("", None))
                text = b64decode(update["output"]["data"]).decode() if "output" in update else text
                text += b64decode(update.get("data", "")).decode()
                found[update["terminalId"]] = (text, update.get("exitStatus", {}).get("exitCode", code))
        return {name: (text.strip(), code) for name, (text, code) in found.items()}

    def plan(self) -> list[Message]:
        return [entry for update in self.agent.updates("plan_update")[-1:] for entry in update["plan"]["entries"]]

    def option_id(self, option: Message) -> str:
        return option["configId"]

    def question_title(self, params: Message) -> str:
        return params["title"]


def _messages(updates: Iterable[Message]) -> dict[str, tuple[str, str]]:
    """The messages by id, as they are after all updates."""
    found: dict[str, tuple[str, str]] = {}
    for number, update in enumerate(updates):
        if update["sessionUpdate"] == "notice":
            found[str(number)] = ("notice", f"{update['title']}: {update.get('description')}")
        role = re.match(r"(user|agent_message|agent_thought|user_message)", update["sessionUpdate"])
        if "messageId" not in update or role is None:
            continue
        blocks = update["content"] if isinstance(update["content"], list) else [update["content"]]
        is_chunk = update["sessionUpdate"].endswith("_chunk")
        before = found.get(update["messageId"], ("", ""))[1] if is_chunk else ""
        text = "".join(block["text"] for block in blocks)
        found[update["messageId"]] = (role.group().partition("_message")[0], before + text)
    return found


def _placeless(value: Any, place: str) -> Any:
    """The value without what differs from run to run: the directory and times."""
    if isinstance(value, str):
        return re.sub(r"after [0-9.]+ s", "after a while", value.replace(place, "PLACE"))
    if isinstance(value, dict):
        return {name: _placeless(each, place) for name, each in value.items()}
    if isinstance(value, list):
        return [_placeless(each, place) for each in value]
    if isinstance(value, tuple):
        made = [_placeless(each, place) for each in value]
        return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
    return value


def _value(value: Any) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


def model(folder: Path) -> str:
    return scripted(
        folder,
        {"reasoning": "What now?", "text": "I begin.", "statement": ACTS},
        {"statement": f"x = 1\n{PLAN}"},
        {"statement": REFUSED},
        {"text": "Done."},
        {"statement": QUESTION},
        {"text": "Thanks."},
        {"statement": f"open({str(folder / 'gate')!r}, 'rb').read()"},
    )


def held(kind: type[Editor], folder: Path) -> tuple[Meaning, Meaning]:
    """Hold the conversation; return what was shown live, and of its history by another process."""
    project = folder / "project"
    project.mkdir(parents=True)
    (project / "notes.md").write_text("first\nold\nlast\n")
    gate = Gate(folder / "gate")
    spec = model(folder)
    with Agent(folder / "state", "--model", spec, permission=None) as agent:
        editor = kind(agent, project)
        editor.open()
        editor.set_option("_ask_about", "acts")
        editor.set_option("_network", True)
        editor.prompt("Change it.")
        assert not (project / "never").exists()
        editor.prompt("Ask me.")
        editor.prompt("Wait.", lambda: (editor.until(_is_running), gate.reached(), editor.cancel()))
        gate.release()
        editor.prompt("/branch")
        editor.close()
        agent.quiet()
        live = editor.meaning()
    with Agent(folder / "state", "--model", "direct", permission=None) as again:
        other = kind(again, project)
        other.load(editor.session)
        replayed = other.meaning()
    return live, replayed


def _is_running(message: Message) -> bool:
    update = message.get("params", {}).get("update", {})
    return update.get("status") == "in_progress" and "toolCallId" in update


@pytest.fixture(scope="module")
def conversations(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[Meaning, Meaning]]:
    return {
        version: held(kind, tmp_path_factory.mktemp(f"version_{version}") / "same")
        for version, kind in ((1, Editor1), (2, Editor2))
    }


def test_live_conversation_is_the_same(conversations: dict[int, tuple[Meaning, Meaning]]) -> None:
    (first, _), (second, _) = conversations[1], conversations[2]
    assert [message for message in second.messages if message[0] != "user"] == first.messages
    assert second._replace(messages=[]) == first._replace(messages=[])


def test_replayed_conversation_is_the_same(conversations: dict[int, tuple[Meaning, Meaning]]) -> None:
    (_, first), (_, second) = conversations[1], conversations[2]
    assert second.cards == first.cards
    assert second == first
    assert [text for role, text in second.messages if role == "user"] == ["Change it.", "Ask me.", "Wait.", "/branch"]


def test_conversation_has_everything(conversations: dict[int, tuple[Meaning, Meaning]]) -> None:
    live, replayed = conversations[2]
    assert live.ends == ["end_turn", "end_turn", "cancelled", "end_turn"]
    assert live.plan == replayed.plan == [("Read it", "medium", "completed"), ("Fix it", "high", "pending")]
    assert ("agent_thought", "What now?") in live.messages
    assert ("agent", "I begin.") in live.messages
    changes = {change for card in live.cards for change in card.changes}
    assert changes == {("new.txt", (), ("one", "two")), ("notes.md", ("old",), ("new",))}
    assert ("out", 3) in {terminal for card in live.cards for terminal in card.terminals}
    asked = [(question.chosen, "never" in question.title) for question in live.questions]
    assert ("Reject", True) in asked
    assert ("Allow", False) in asked
    assert ("that", False) in asked
    assert (live.options["_network"], live.options["_ask_about"]) == ("on", "acts")
    assert {card.is_ok for card in live.cards} == {True, False}
