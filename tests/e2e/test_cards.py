"""What an editor is shown of acts, over the real agent: one card for each act, and no text twice."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from acp_adapter.updates.calls import CANCELLED, NOT_RUN
from acp_adapter.updates.files import RESTORED
from acp_adapter.updates.statements import DIFFERENT, FAILED, REJECTED
from engine.context.models.local import OPENED, UNSEEN_PICTURE
from engine.context.models.statement_tool import WRONG_ARGUMENTS
from tests.support.agents import Agent
from tests.support.llm_answers import CHAT, chat
from tests.support.llm_server import llm_server
from tests.support.pictures import image_block, png
from tests.support.scripts import asks_permission, load, logged, reason, runs, scripted, transcript


def cards(updates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cards on the screen after these updates, in their order."""
    return list(transcript(updates)["calls"].values())


def words(card: dict[str, Any]) -> str:
    """The text of a card."""
    return "\n".join(block["content"]["text"] for block in card.get("content", []) if block["type"] == "content")


def shown_twice(agent: Agent, session: str, cwd: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The cards of the live session, and those of a load."""
    live = agent.updates()
    load(agent, session, cwd)
    return cards(live), cards(agent.updates()[len(live) :])


# --- what did not go through ------------------------------------------------------------------------------------------


def test_cancelled_statement_has_no_traceback(tmp_path: Path, project: Path) -> None:
    model = scripted(tmp_path, {"statement": "print('begun', flush=True)\nwhile True:\n    pass"}, {"text": "Fine."})
    with Agent(tmp_path / "state", "--model", model) as agent:
        session = agent.open(project)
        prompt = agent.begin_prompt(session, "go")
        agent.until(lambda message: "begun" in json.dumps(message) and "rawInput" not in json.dumps(message))
        agent.notify("session/cancel", {"sessionId": session})
        assert reason(agent.response(prompt)) == "cancelled"
        for (card,) in shown_twice(agent, session, project):
            assert card["status"] == "failed"
            assert "begun\n[cancelled after " in words(card)
            assert "Traceback" not in json.dumps(card)
            assert "Interrupt" not in words(card)
        agent.prompt(session, "go on")
    read = [event["text"] for event in logged(tmp_path / "state", session) if event["kind"] == "tool_result"]
    assert [text.partition(" after ")[0] for text in read] == ["begun\n[cancelled"]


def test_cancelled_act_says_so_in_a_word(tmp_path: Path, project: Path) -> None:
    model = scripted(tmp_path, {"statement": "x = 1\nbash('sleep 60')"})
    with Agent(tmp_path / "state", "--model", model) as agent:
        session = agent.open(project)
        agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
        prompt = agent.begin_prompt(session, "go")
        agent.until(lambda message: "sleep 60" in json.dumps(message) and runs(message) and "bash" in str(message))
        agent.notify("session/cancel", {"sessionId": session})
        assert reason(agent.response(prompt)) == "cancelled"
        for statement, act in shown_twice(agent, session, project):
            assert words(act).endswith(CANCELLED)
            for card in (statement, act):
                assert card["status"] == "failed"
                assert "Error" not in words(card)
                assert "Traceback" not in words(card)


def test_rejected_act_says_so_without_a_traceback(tmp_path: Path, project: Path) -> None:
    model = scripted(tmp_path, {"statement": "print('begun')\nwrite('a.txt', 'x')"}, {"text": "Fine."})
    with Agent(tmp_path / "state", "--model", model, permission="reject_once") as agent:
        session = agent.open(project)
        assert agent.prompt(session, "go") == "end_turn"
        for statement, act in shown_twice(agent, session, project):
            assert (act["status"], statement["status"]) == ("failed", "failed")
            assert words(act) == "```\nx\n```\n```\nThe user rejected this change.\n```"
            assert words(statement).endswith(f"```\nbegun\n{REJECTED}\n```")
            assert "Traceback" not in words(statement)
    (read,) = (
        event["text"]
        for event in logged(tmp_path / "state", session)
        if event["kind"] == "tool_result" and event["parent_id"] is None
    )
    assert read.endswith("PermissionError: The user rejected this change.")  # the model needs the line that failed


@pytest.mark.parametrize("before", ["", "print('begun')\n"], ids=["the statement's card", "a card of its own"])
def test_rejected_edit_keeps_its_diff(tmp_path: Path, project: Path, before: str) -> None:
    (project / "a.txt").write_text("one\ntwo\n")
    source = f"{before}edit('a.txt', 'two', 'three')"
    model = scripted(tmp_path, {"statement": source}, {"text": "Fine."})
    with Agent(tmp_path / "state", "--model", model, permission="reject_once") as agent:
        session = agent.open(project)
        agent.prompt(session, "go")
        for shown in shown_twice(agent, session, project):
            diff, said = shown[-1]["content"][-2:]
            place = str(project / "a.txt")
            assert diff == {"type": "diff", "path": place, "oldText": "two", "newText": "three"}
            assert "The user rejected this change." in said["content"]["text"]


def test_error_that_is_caught_and_another_after_it(tmp_path: Path, project: Path) -> None:
    source = "try:\n    write('a.txt', 'x')\nexcept PermissionError:\n    pass\n1 / 0"
    with Agent(
        tmp_path / "state", "--model", scripted(tmp_path, {"statement": source}), permission="reject_once"
    ) as agent:
        session = agent.open(project)
        agent.prompt(session, "go")
        statement, _ = cards(agent.updates())
        assert "ZeroDivisionError" in words(statement)
        assert REJECTED not in words(statement)


def test_malformed_call_is_a_thought(tmp_path: Path, project: Path) -> None:
    with (
        llm_server(chat("", '{"source": 7}'), chat("Sorry.")) as server,
        Agent(tmp_path / "state", "--model", f"provider:{CHAT}", env=server.environment()) as agent,
    ):
        session = agent.open(project)
        assert agent.prompt(session, "go", seconds=60) == "end_turn"  # it imports the provider's library
        live = agent.updates()
        load(agent, session, project)
        for updates in (live, agent.updates()[len(live) :]):
            assert [card for card in cards(updates) if "name" in card] == []
            (thought,) = (each for each in updates if "thought" in each["sessionUpdate"] and "could" in str(each))
            assert thought["content"]["text"].startswith(f"{NOT_RUN}\n\n```\n{WRONG_ARGUMENTS}")
    assert WRONG_ARGUMENTS.partition(":")[0] in str(server.asked[1].body["messages"])


# --- what is no act ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("notices", [True, False], ids=["notices", "thoughts"])
def test_sandbox_is_told_once_and_is_no_card(tmp_path: Path, project: Path, notices: bool) -> None:
    model = scripted(tmp_path, {"statement": "1"}, {}, {"statement": "2"}, {}, {"statement": "3"})
    with Agent(tmp_path / "state", "--model", model) as agent:
        agent.initialize(session={"notices": {}} if notices else {})
        session = agent.new_session(project)
        for mode in ("ask", "auto", "auto"):
            agent.call("session/set_mode", {"sessionId": session, "modeId": mode})
            agent.prompt(session, "go")
        live = agent.updates()
        assert "sandbox" not in json.dumps(cards(live)).lower()
        told = news(live)
        assert [project.name in text for text in told] == [False, True]  # the second may write it
        assert {update["sessionUpdate"] for update in live if told[0] in str(update)} == {
            "notice" if notices else "agent_thought_chunk"
        }
        load(agent, session, project)
        assert news(agent.updates()[len(live) :]) == []
    with Agent(tmp_path / "state", "--model", model) as later:
        later.initialize()
        load(later, session, project, "session/resume")
        later.prompt(session, "go")
        assert news(later.updates()) == []


def news(updates: list[dict[str, Any]]) -> list[str]:
    """What is told of the sandbox."""
    texts = [str(update.get("description") or update.get("content", {})) for update in updates if "title" in update]
    texts += [update["content"]["text"] for update in updates if update["sessionUpdate"] == "agent_thought_chunk"]
    return [text for text in texts if "sandbox" in text]


def test_server_is_told_once_and_is_no_card(tmp_path: Path, project: Path) -> None:
    dead: dict[str, Any] = {"name": "dead", "command": "/no/such/program", "args": [], "env": []}
    with Agent(tmp_path / "state", "--model", scripted(tmp_path, {"statement": "1"}, {}, {})) as agent:
        agent.initialize(session={"notices": {}})
        session = agent.call("session/new", {"cwd": str(project), "mcpServers": [dead]})["sessionId"]
        agent.prompt(session, "go")
        agent.prompt(session, "/rewind 0")
        live = agent.updates()
        (lost,) = (update for update in live if "dead" in str(update.get("title")))
        assert (lost["sessionUpdate"], lost["severity"], lost["title"]) == ("notice", "warning", "MCP server dead")
        assert "/no/such/program" in lost["description"]
        load(agent, session, project)
        assert not any("dead" in str(update) for update in agent.updates()[len(live) :])


def test_mention_is_part_of_the_prompt(tmp_path: Path, project: Path) -> None:
    (project / "notes.md").write_text("# Notes\n")
    link = {"type": "resource_link", "uri": (project / "notes.md").as_uri(), "name": "notes.md"}
    with Agent(tmp_path / "state", "--model", scripted(tmp_path, {"statement": "print(notes_md.title)"})) as agent:
        session = agent.open(project)
        assert agent.prompt(session, "look at", link) == "end_turn"
        for (card,) in shown_twice(agent, session, project):
            assert card["title"] == "print(notes_md.title)"
            assert "notes.md" in words(card)


# --- one act, one card ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Act:
    """A statement that is one act, and its card."""

    source: str
    kind: str
    title: str
    text: str = ""
    diff: tuple[str | None, str] | None = None


ACTS = (
    Act('read("a.txt")', "read", "Read a.txt", "```\nalpha\n```"),
    Act('found = grep("alp")', "search", 'Search "alp"', "```\na.txt:1: alpha\n```"),
    Act('print(bash("echo $((40 + 2))").output)', "execute", "Run echo $((40 + 2))", "```\n42\n```\nexit code 0"),
    Act('edit("a.txt", "alpha", "beta")', "edit", "Edit a.txt (+1 -1)", "", ("alpha\n", "beta\n")),
    Act('# A new file.\nwrite("b.txt", "new\\n")', "edit", "Create b.txt (+1)", "", (None, "new\n")),
    Act('import os\nos.rename("b.txt", "c.txt")', "move", "Rename b.txt to c.txt"),
    Act('import os\nos.remove("c.txt")', "delete", "Remove c.txt", "", ("new\n", "")),
    Act('edit("none.txt", "x", "y")', "edit", "Edit none.txt", "```\nFileNotFoundError: there is no such file; "),
)


def test_statement_that_is_one_act_has_the_card_of_that_act(tmp_path: Path, project: Path) -> None:
    (project / "a.txt").write_text("alpha\n")
    model = scripted(tmp_path, *({"statement": act.source} for act in ACTS), {"text": "Done."})
    with Agent(tmp_path / "state", "--model", model) as agent:
        session = agent.open(project)
        assert agent.prompt(session, "go") == "end_turn"
        asked = {
            message["params"]["toolCall"]["toolCallId"]: message["params"]["toolCall"]["kind"]
            for message in agent.received
            if message.get("method") == "session/request_permission"
        }
        for shown in shown_twice(agent, session, project):
            for act, card in zip(ACTS, shown, strict=True):
                assert (card["kind"], card["title"]) == (act.kind, act.title)
                assert words(card) == act.text or (card["status"] == "failed" and words(card).startswith(act.text))
                changes = [(each["oldText"], each["newText"]) for each in card["content"] if each["type"] == "diff"]
                assert changes == ([act.diff] if act.diff else [])
                assert asked.pop(card["toolCallId"], act.kind) == act.kind
        assert asked == {}  # each question was about the card


def test_acts_of_a_statement_repeat_nothing_of_it(tmp_path: Path, project: Path) -> None:
    (project / "a.txt").write_text("alpha\n")
    source = (
        'print(read("a.txt"))\nr = bash("echo $((40 + 2))")\nprint(r.output)\nx = edit("a.txt", "alpha", "beta")\nr'
    )
    model = scripted(tmp_path, {"statement": source}, {"text": "Done."})
    with Agent(tmp_path / "state", "--model", model) as agent:
        session = agent.open(project)
        assert agent.prompt(session, "go") == "end_turn"
        for shown in shown_twice(agent, session, project):
            assert [card["title"] for card in shown][1:] == ["Read a.txt", "Run echo $((40 + 2))", "Edit a.txt (+1 -1)"]
            assert words(shown[0]) == f"```python\n{source}\n```\n```\nalpha\n\n42\n```"
            assert words(shown[1]) == ""
            assert words(shown[2]) == "```\n42\n```\nexit code 0"


def test_statement_of_several_acts_has_only_their_cards(tmp_path: Path, project: Path) -> None:
    (project / "a.txt").write_text("alpha\n")
    source = 'import os\nprint(read("a.txt"))\nedit("a.txt", "alpha", "beta")\nos.rename("a.txt", "b.txt")'
    model = scripted(tmp_path, {"statement": source}, {"text": "Done."})
    with Agent(tmp_path / "state", "--model", model) as agent:
        session = agent.open(project)
        assert agent.prompt(session, "go") == "end_turn"
        for shown in shown_twice(agent, session, project):
            assert [(card["kind"], card["title"], card["status"]) for card in shown] == [
                ("read", "Read a.txt", "completed"),
                ("edit", "Edit a.txt (+1 -1)", "completed"),
                ("move", "Rename a.txt to b.txt", "completed"),
            ]
            assert words(shown[0]) == "```\nalpha\n```"


@pytest.mark.parametrize(
    ("earlier", "source", "last"),
    [
        ("1", 'write("a.txt", "x")\nedit("none.txt", "x", "y")\nwrite("b.txt", "x")', "Edit none.txt"),
        ("1", 'write("a.txt", "x")\nwrite("b.txt")', 'write("a.txt", "x") … +1 line'),  # its own error
        ("1", 'write("a.txt", "x")\nprint(bash("exit 3").code)', 'write("a.txt", "x") … +1 line'),  # its own output
        ('def edit(*_): bash("true")', 'write("a.txt", "x")\nedit("a.txt", "x", "y")', "Run true"),
        ("def edit(*_): pass", 'write("a.txt", "x")\nedit("a.txt", "x", "y")', 'write("a.txt", "x") … +1 line'),
    ],
    ids=["an act fails", "it fails", "it prints", "another act", "no act"],
)
def test_statement_of_several_acts_shows_what_they_do_not(
    tmp_path: Path, project: Path, earlier: str, source: str, last: str
) -> None:
    model = scripted(tmp_path, {"statement": earlier}, {"statement": source}, {"text": "Done."})
    with Agent(tmp_path / "state", "--model", model) as agent:
        session = agent.open(project)
        assert agent.prompt(session, "go") == "end_turn"
        for shown in shown_twice(agent, session, project):
            titles = [card["title"] for card in shown[1:]]
            assert titles[0].startswith(("Create a.txt", "Write a.txt"))
            assert titles[-1] == last
            assert ('write("a.txt", "x") … +1 line' in titles) == (last != "Edit none.txt")


def seen_titles(agent: Agent, session: str, command: str) -> list[tuple[str, str, str]]:
    """The cards of a command: kinds, titles and status."""
    before = len(agent.updates())
    assert agent.prompt(session, command) == "end_turn"
    return [(card["kind"], card["title"], card["status"]) for card in cards(agent.updates()[before:])]


def test_acts_that_run_again_have_one_card(tmp_path: Path, project: Path) -> None:
    (project / "a.txt").write_text("alpha\n")
    with Agent(tmp_path / "state") as agent:
        session = agent.open(project)
        for source in ('x = read("a.txt")', 'write("b.txt", "one")\nwrite("c.txt", "two")', 'bash("exit 0")', "x = 1"):
            agent.prompt(session, source)
        assert seen_titles(agent, session, "/replay 1 4 --live") == [
            ("read", "Read a.txt", "completed"),
            ("edit", "Write b.txt", "completed"),  # it has that text already
            ("edit", "Write c.txt", "completed"),
            ("execute", "Run exit 0", "completed"),
            ("execute", "Run statement 4 again (4 of 4)", "completed"),
        ]
        live = '/edit 2 --live\nwrite("b.txt", "uno")\nwrite("c.txt", "due")'
        assert seen_titles(agent, session, live)[1:] == [
            ("edit", "Edit b.txt (+1 -1)", "completed"),
            ("edit", "Edit c.txt (+1 -1)", "completed"),
            ("execute", "Run exit 0", "completed"),
            ("execute", "x = 1 (3 of 3)", "completed"),
        ]


def test_acts_that_the_record_answers_have_no_card(tmp_path: Path, project: Path) -> None:
    with Agent(tmp_path / "state") as agent:
        session = agent.open(project)
        for source in ("x = 1", 'write("b.txt", "one")', 'write("c.txt", "one")\nplan([{"content": "Go on"}])'):
            agent.prompt(session, source)
        assert seen_titles(agent, session, "/edit 1\nx = 2")[1:] == [
            ("execute", "x = 2 (1 of 3)", "completed"),
            ("execute", 'write("b.txt", "one") (2 of 3)', "completed"),
            ("execute", 'write("c.txt", "one") … +1 line (3 of 3)', "completed"),
        ]
        (failed,) = (
            card for card in seen_titles(agent, session, '/edit 2\nwrite("b.txt", "two")') if card[2] == "failed"
        )
        assert failed == ("execute", 'write("b.txt", "two") (1 of 2)', "failed")


def test_prompt_that_is_only_a_picture_or_a_mention(tmp_path: Path, project: Path) -> None:
    (project / "a.txt").write_text("alpha\n")
    link = {"type": "resource_link", "uri": (project / "a.txt").as_uri(), "name": "a.txt"}
    with Agent(tmp_path / "state") as agent:
        session = agent.open(project)
        for block, answer in ((image_block(png()), UNSEEN_PICTURE), (link, OPENED)):
            before = len(agent.text())
            agent.call("session/prompt", {"sessionId": session, "prompt": [block]})
            assert agent.text()[before:] == answer


def test_cancelled_command_keeps_its_output(tmp_path: Path, project: Path) -> None:
    model = scripted(tmp_path, {"statement": 'bash("echo $((40 + 2)) lines; sleep 60")'})
    with Agent(tmp_path / "state", "--model", model) as agent:
        session = agent.open(project)
        prompt = agent.begin_prompt(session, "go")
        agent.until(lambda message: "42 lines" in json.dumps(message))
        agent.notify("session/cancel", {"sessionId": session})
        assert reason(agent.response(prompt)) == "cancelled"
        for (card,) in shown_twice(agent, session, project):
            assert words(card) == f"```\n42 lines\n```\n{CANCELLED}"


def test_failed_act_is_explained_once(tmp_path: Path, project: Path) -> None:
    model = scripted(tmp_path, {"statement": "x = 1\nedit('none.txt', 'x', 'y')"}, {"text": "Done."})
    with Agent(tmp_path / "state", "--model", model) as agent:
        session = agent.open(project)
        agent.prompt(session, "go")
        for statement, act in shown_twice(agent, session, project):
            assert "FileNotFoundError" in words(act)
            assert words(statement).endswith(f"```\n{FAILED}\n```")


@pytest.mark.parametrize(
    ("earlier", "source", "title"),
    [
        ("1", 'edit("a.txt")', 'edit("a.txt")'),  # it raises before it acts
        ('def edit(*_): bash("true")', 'edit("a.txt", "alpha", "beta")', 'edit("a.txt", "alpha", "beta")'),
        ("1", "read('a.txt').upper()", "read('a.txt').upper()"),
    ],
)
def test_other_statements_show_their_source(
    tmp_path: Path, project: Path, earlier: str, source: str, title: str
) -> None:
    (project / "a.txt").write_text("alpha\n")
    model = scripted(tmp_path, {"statement": earlier}, {"statement": source}, {"text": "Done."})
    with Agent(tmp_path / "state", "--model", model) as agent:
        session = agent.open(project)
        assert agent.prompt(session, "go") == "end_turn"
        for shown in shown_twice(agent, session, project):
            card = shown[1]
            assert (card["kind"], card["title"]) == ("execute", title)
            assert source in words(card)
            assert card["status"] == ("failed" if title == 'edit("a.txt")' else "completed")


def test_question_about_a_statement_shows_its_source_before_its_card_is_that_of_the_act(
    tmp_path: Path, project: Path
) -> None:
    model = scripted(tmp_path, {"statement": 'write("b.txt", "new\\n")'}, {"text": "Done."})
    with Agent(tmp_path / "state", "--model", model) as agent:
        agent.initialize(_meta={"terminal_output": True})
        session = agent.new_session(project)
        option = {"sessionId": session, "configId": "_ask_about", "value": "statements"}
        agent.call("session/set_config_option", option)
        assert agent.prompt(session, "go") == "end_turn"
        (question,) = (message["params"] for message in agent.received if asks_permission(message))
        assert question["toolCall"]["title"] == 'write("b.txt", "new\\n")'
        assert 'write("b.txt"' in words(question["toolCall"])
        for (card,) in shown_twice(agent, session, project):
            assert card["toolCallId"] == question["toolCall"]["toolCallId"]
            assert (card["kind"], card["title"], words(card)) == ("edit", "Create b.txt (+1)", "")


def test_typed_act_is_told_once(tmp_path: Path, project: Path) -> None:
    (project / "a.txt").write_text("alpha\n")
    with Agent(tmp_path / "state") as agent:
        session = agent.open(project)
        for source in ('read("a.txt")', 'bash("echo $((40 + 2))")', 'edit("none.txt", "x", "y")'):
            agent.prompt(session, source)
        for read, ran, failed in shown_twice(agent, session, project):
            assert words(read) == ""
            assert words(ran) == "```\n42\n```\nexit code 0"
            assert "FileNotFoundError" in words(failed)
        assert agent.text().count("alpha") == 2  # live, and in the load
        assert "42" not in agent.text()


# --- deletions and renames --------------------------------------------------------------------------------------------

TREE = """\
from pathlib import Path
Path("gone.txt").unlink()
Path("old.txt").rename("new.txt")
Path("same.txt").rename("same2.txt")
Path("other.txt").rename("other2.txt")"""


@pytest.mark.parametrize("mode", ["ask", "auto"])
def test_deletion_and_rename_are_what_they_are_to_the_end(tmp_path: Path, project: Path, mode: str) -> None:
    for name, text in (("gone", "gone\n"), ("old", "old\n"), ("same", "equal\n"), ("other", "equal\n")):
        (project / f"{name}.txt").write_text(text)
    with Agent(tmp_path / "state", "--model", scripted(tmp_path, {"statement": TREE})) as agent:
        session = agent.open(project)
        agent.call("session/set_mode", {"sessionId": session, "modeId": mode})
        agent.prompt(session, "go")
        asked = [message["params"]["toolCall"] for message in agent.received if asks_permission(message)]
        kinds = [(call["kind"], call["title"]) for call in asked]
        assert kinds[:2] == ([("delete", "Remove gone.txt"), ("move", "Rename old.txt to new.txt")] * (mode == "ask"))
        assert all(any(block["type"] == "diff" for block in call["content"]) for call in asked)
        for _, removed, renamed, *others in shown_twice(agent, session, project):
            assert (removed["kind"], removed["title"].removesuffix(" (-1)")) == ("delete", "Remove gone.txt")
            assert [(each["oldText"], each["newText"]) for each in diffs(removed)] == [("gone\n", "")]
            assert (renamed["kind"], renamed["title"]) == ("move", "Rename old.txt to new.txt")
            assert diffs(renamed) == []
            # In mode auto only the files are known, and two of them were equal.
            assert [card["kind"] for card in others] == (["move"] * 2 if mode == "ask" else ["delete", "edit"] * 2)
        agent.prompt(session, "/rewind 0")
        assert sorted(path.name for path in project.iterdir()) == ["gone.txt", "old.txt", "other.txt", "same.txt"]


def diffs(card: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for block in card["content"] if block["type"] == "diff"]


# --- going back -------------------------------------------------------------------------------------------------------


def lines_of(updates: list[dict[str, Any]]) -> list[str]:
    """Each line of what these updates draw: titles and texts of cards, and messages."""
    drawn = transcript(updates)
    texts = [text for card in drawn["calls"].values() for text in (card["title"], words(card))]
    lines = "\n".join([*texts, *drawn["messages"].values()]).split("\n")
    return [line.lower() for line in lines if line.strip("`")]


def test_going_back_tells_each_thing_once(tmp_path: Path, project: Path) -> None:
    with Agent(tmp_path / "state") as agent:
        session = agent.open(project)
        for source in ('write("a.txt", "1")', 'write("a.txt", "2")', "import random\nrandom.random()"):
            agent.prompt(session, source)
        for command, files in (("/rewind 1", 1), ("/branch main", 1), ("/rewind 2 --keep-conversation", 0)):
            before = len(agent.updates())
            agent.prompt(session, command)
            lines = lines_of(agent.updates()[before:])
            assert sum(RESTORED.lower()[:-1] in line for line in lines) == 1, lines
            assert sum("a.txt" in line for line in lines) == files
            assert sum("branch" in line for line in lines) <= 2  # where the editor goes, and what was asked for
            assert len(lines) == len(set(lines))
        before = len(agent.updates())
        agent.prompt(session, "/omit 3")
        agent.prompt(session, "/replay 3 --live")
        lines = lines_of(agent.updates()[before:])
        (value,) = (line for line in lines if "instead of" in line)
        assert value.startswith("- statement 3: `value:")
        assert DIFFERENT.lower() in lines
