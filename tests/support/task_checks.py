"""What a client must have been shown and asked while a model solved the task `mru`, whoever these two were."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from tests.support.coding_tasks import CodingTask, texts
from tests.support.scripts import transcript
from tests.support.seen import NEWS

Message = dict[str, Any]
Asking = Literal["statements", "acts", "nothing"]
"""What a session asks about: mode `ask` with either value of its option, or mode `auto`."""

TOOLS: Final = ("grep", "find", *["edit"] * 6, "write", "bash", "edit", "bash")
"""The acts of the task, in their order."""


class Watched(NamedTuple):
    """What a client was asked, each as the call that it was about, and every call with its patches applied."""

    questions: list[Message]
    calls: list[Message]
    text: str
    told: list[str]
    """What the session says beside the conversation, such as of the sandbox."""


def watched(messages: Iterable[Message]) -> Watched:
    """What these messages of an agent were."""
    sent = list(messages)
    updates = [each["params"]["update"] for each in sent if each.get("method") == "session/update"]
    questions = [each["params"]["toolCall"] for each in sent if each.get("method") == "session/request_permission"]
    held = transcript(updates)
    told = [text for message_id, text in held["messages"].items() if message_id.startswith(NEWS)]
    said = [text for message_id, text in held["messages"].items() if not message_id.startswith(NEWS)]
    return Watched(questions, list(held["calls"].values()), "\n".join(said), told)


def assert_task_was_shown(seen: Watched, task: CodingTask, project: Path, before: dict[str, str]) -> None:
    """Every statement and act, each as what it is; the diffs lead from the files before to the files as they are."""
    said = [line for line in seen.text.splitlines() if line]
    assert said == [*(reply.text for reply in task.replies), task.summary]
    acts = [call for call in seen.calls if call["name"] != "python"]
    assert [call["name"] for call in acts] == list(TOOLS)
    assert {call["status"] for call in seen.calls} == {"completed"}
    kinds = {call["name"]: call["kind"] for call in acts}
    assert kinds == {"grep": "search", "find": "search", "edit": "edit", "write": "edit", "bash": "execute"}

    assert str(project / "src/cachetools/func.py") in {each["path"] for each in acts[0]["locations"]}
    assert "class LRUCache(Cache)" in content_text(acts[0])
    assert "tests/test_lru.py" in content_text(acts[1])
    ended = [content_text(call) for call in acts if call["name"] == "bash"]
    assert "has no attribute '_MRUCache__order'" in ended[0]
    assert "1 failed" in ended[0]
    assert "114 passed" in ended[1]
    changes = [call for call in acts if call["kind"] == "edit"]
    assert all(call["locations"][0]["path"] == diffs_of(call)[0]["path"] for call in changes)
    assert_diffs_lead(before, [diff for call in changes for diff in diffs_of(call)], project)


def assert_asked(seen: Watched, task: CodingTask, asking: Asking) -> None:
    """One question for each statement, or for each act that changes something, or none."""
    match asking:
        case "statements":
            assert [content_text(each) for each in seen.questions] == [
                f"```python\n{reply.source.rstrip()}\n```" for reply in task.replies
            ]
        case "acts":
            changing = [call for call in seen.calls if call["name"] in ("edit", "write", "bash")]
            assert [each["toolCallId"] for each in seen.questions] == [call["toolCallId"] for call in changing]
            for question, call in zip(seen.questions, changing, strict=True):
                if call["name"] == "bash":
                    assert "python -m pytest" in content_text(question)
                else:
                    assert diffs_of(question) == diffs_of(call) != []
        case "nothing":
            assert seen.questions == []


def diffs_of(call: Message) -> list[Message]:
    return [each for each in call["content"] if each["type"] == "diff"]


def content_text(call: Message) -> str:
    return "\n".join(each["content"]["text"] for each in call["content"] if each["type"] == "content")


def assert_diffs_lead(before: dict[str, str], diffs: list[Message], project: Path) -> None:
    """Applied one after the other, the diffs make of the files before those that are there."""
    held = dict(before)
    for diff in diffs:
        name = str(Path(diff["path"]).relative_to(project))
        if diff.get("oldText") is None:
            assert name not in held
            held[name] = diff["newText"]
        else:
            assert held[name].count(diff["oldText"]) == 1
            held[name] = held[name].replace(diff["oldText"], diff["newText"])
    assert held == texts(project)
