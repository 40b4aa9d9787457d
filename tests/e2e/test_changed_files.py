"""What people see of the files that a command changed: the editor's card, the terminal, and the command line."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from engine.session.commands.files import LEFT, SHOW_LEFT, UNDO_GOES_ON
from engine.session.tools.bash import DENIED
from engine.session.working_tree.changes import CUT_SHORT
from tests.e2e.test_bash import wait_for
from tests.e2e.test_cards import cards, shown_twice, words
from tests.support.agents import Agent
from tests.support.scripts import scripted

COMMAND = "printf 'two\\n' > a.txt; printf 'new\\n' > new.txt; rm gone.txt; chmod 755 run.sh; mkdir made; echo done"


@pytest.fixture
def tree(project: Path) -> Path:
    for name in ("a.txt", "gone.txt", "run.sh"):
        (project / name).write_text("one\n")
    return project


def diffs(card: dict[str, Any]) -> list[tuple[str, str | None, str]]:
    """The diffs of a card: name, old text, new text."""
    blocks = [block for block in card["content"] if block["type"] == "diff"]
    return [(Path(block["path"]).name, block.get("oldText"), block["newText"]) for block in blocks]


@pytest.mark.parametrize("terminals", [False, True])
def test_card_of_a_command_has_the_diffs_of_its_files(tmp_path: Path, tree: Path, terminals: bool) -> None:
    model = scripted(tmp_path, {"statement": f"bash({COMMAND!r})"}, {"text": "Fine."})
    with Agent(tmp_path / "state", "--model", model) as agent:
        agent.initialize(**({"_meta": {"terminal_output": True}} if terminals else {}))
        session = agent.new_session(tree)
        agent.prompt(session, "go")
        for (card,) in shown_twice(agent, session, tree):
            assert card["title"].startswith("Run printf")
            assert diffs(card) == [("a.txt", "one\n", "two\n"), ("gone.txt", "one\n", ""), ("new.txt", None, "new\n")]
            assert "mode 644 -> 755" in words(card)
            assert "... 1 more file that changed" in words(card)  # the directory
            places = [Path(each["path"]).name for each in card["locations"]]
            assert places == ["a.txt", "gone.txt", "new.txt", "run.sh"]


def test_command_of_very_many_files_shows_the_first(tmp_path: Path, tree: Path) -> None:
    model = scripted(tmp_path, {"statement": "bash('for i in $(seq 100); do echo x > f$i; done')"}, {"text": "Fine."})
    with Agent(tmp_path / "state", "--model", model) as agent:
        session = agent.open(tree)
        agent.prompt(session, "go")
        (card,) = cards(agent.updates())
        assert len(diffs(card)) == 20
        assert "... 80 more files that changed" in words(card)


def test_what_a_command_did_before_the_agent_was_killed_is_named(tmp_path: Path, tree: Path) -> None:
    model = scripted(tmp_path, {"statement": f"bash({COMMAND + '; touch ready; sleep 60'!r})"}, {"text": "Fine."})
    with Agent(tmp_path / "state", "--model", model) as agent:
        session = agent.open(tree)
        agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
        agent.begin_prompt(session, "go")
        wait_for(tree / "ready")
        agent.kill()
    with Agent(tmp_path / "state", "--model", model) as agent:
        agent.initialize()
        agent.call("session/load", {"sessionId": session, "cwd": str(tree), "mcpServers": []})
        (card,) = cards(agent.updates())
        assert diffs(card) == [
            ("a.txt", "one\n", "two\n"),
            ("gone.txt", "one\n", ""),
            ("new.txt", None, "new\n"),
            ("ready", None, ""),
        ]
        assert CUT_SHORT in words(card)
        agent.prompt(session, "/undo")
        assert (tree / "a.txt").read_text() == "two\n"
        assert f"a.txt was not restored: {CUT_SHORT}." in words(cards(agent.updates())[-1])
        assert agent.text().startswith(f"{LEFT.format(6, 'files', SHOW_LEFT.format(session))} {UNDO_GOES_ON}")


def test_git_works_in_the_sandbox_and_what_it_denies_is_named(tmp_path: Path, tree: Path) -> None:
    git = "git -c user.name=t -c user.email=t@e"
    subprocess.run(f"git init -q . && git add -A && {git} commit -qm one", cwd=tree, shell=True, check=True)
    linked = tmp_path / "linked"
    subprocess.run(["git", "worktree", "add", "-q", str(linked)], cwd=tree, check=True)
    commit, outside = f"echo two > a.txt && git add -A && {git} commit -qm two", f"touch {tmp_path}/outside"
    source = f"for act in {[commit, outside]!r}: print('because:', bash(act).reason)"
    for place, denied in ((tree, ()), (linked, (tree / ".git" / "worktrees" / "linked" / "index.lock",))):
        model = scripted(tmp_path, {"statement": source}, {"text": "Fine."})
        with Agent(tmp_path / "state", "--model", model) as agent:
            session = agent.open(place)
            agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
            agent.prompt(session, "go")
            said = "\n".join(map(words, cards(agent.updates())))
        for path in (*denied, tmp_path / "outside"):
            assert DENIED.format(path) in said
        head = subprocess.run(["git", "log", "--format=%s"], cwd=place, check=True, capture_output=True).stdout
        assert head == (b"one\n" if denied else b"two\none\n")
    assert not (tmp_path / "outside").exists()
