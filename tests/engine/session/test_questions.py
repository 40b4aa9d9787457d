"""Who is asked, about what, with which offer; and what is remembered of an answer."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from engine.core.diff import change_size
from engine.core.execution import LeftOut, TextChange
from engine.core.ids import ExecutionId, ToolCallId
from engine.log.event_log import EventLog
from engine.log.events.execution import FileTouched
from engine.log.events.session import PermissionAnswered, PermissionAsked
from engine.log.permissions import (
    ASKED_CHARS,
    READ_RESOURCE,
    CommandSubject,
    FileSubject,
    PermissionAnswer,
    PermissionQuestion,
    PermissionSubject,
    ServerCallSubject,
    StatementSubject,
    TreeSubject,
)
from engine.log.redaction import Redactor
from engine.session.policy import HIDDEN_QUOTING, NOT_LEGIBLE, Policy, Questions
from tests.support.fixed import FixedClock
from tests.support.permissions import FixedPermissions

pytestmark = pytest.mark.anyio
CALL = ToolCallId("c")
SECRET = "a-secret-of-mine"
ALWAYS = PermissionAnswer(outcome="allowed", remember=True)
ONCE = PermissionAnswer(outcome="allowed")


def file(path: Path, new: str = "x\n") -> FileSubject:
    return FileSubject(path=str(path), changes=(TextChange(line=1, old=None, new=new),))


def command(text: str) -> CommandSubject:
    return CommandSubject(command=text, cwd="/w")


class Asked:
    """A session's questions, in front of a user who has made up their mind."""

    def __init__(self, root: Path, *answers: PermissionAnswer, secrets: tuple[str, ...] = ()) -> None:
        policy = Policy()
        self.log = EventLog(FixedClock(), lambda event: None)
        self.log.follow(policy.apply)
        self.user = FixedPermissions(answers)
        self.questions = Questions(self.log, policy, Redactor(secrets), (str(root),))
        self.questions.permissions = self.user

    async def decide(self, *subjects: PermissionSubject) -> list[str]:
        return [(await self.questions.decide(CALL, subject)).outcome for subject in subjects]

    @property
    def change(self) -> FileSubject | TreeSubject:
        subject = self.user.questions[0].subject
        assert isinstance(subject, FileSubject | TreeSubject)
        return subject

    @property
    def offered(self) -> list[str]:
        return [question.always for question in self.user.questions]


@pytest.mark.parametrize(
    ("subject", "offer"),
    [
        (StatementSubject("x"), "all statements of this session"),
        (command("git status"), "commands that begin with git status in /w"),
        (command("git status; rm -rf ."), "exactly this command: git status; rm -rf ."),
        (command("echo $HOME"), "exactly this command: echo $HOME"),
        (command("x" * 3_000), ""),
    ],
)
async def test_a_question_offers_to_remember_what_can_be_named(
    tmp_path: Path, subject: PermissionSubject, offer: str
) -> None:
    asked = Asked(tmp_path, ALWAYS, ONCE)
    await asked.decide(subject, subject)
    assert asked.offered == ([offer] if offer else ["", ""])
    remembered = [event.remembered for event in asked.log.events if isinstance(event, PermissionAnswered)]
    assert remembered == ([True] if offer else [False, False])


async def test_model_reads_the_reason_of_a_rejection_without_secrets(tmp_path: Path) -> None:
    no = PermissionAnswer(outcome="rejected", reason="keep\n the old name, my-secret-value.")
    asked = Asked(tmp_path, no, secrets=("my-secret-value",))
    verdict = await asked.questions.decide(CALL, command("git mv a b"))
    assert verdict.reason == "The user rejected this command: keep the old name, ***."


async def test_directory_and_file_are_offered_as_such(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    asked = Asked(tmp_path, *[ONCE] * 3)
    await asked.decide(file(tmp_path / "src" / "a.py"), file(tmp_path / "not yet" / "a.py"), file(tmp_path / "a.py"))
    assert asked.offered == ["changes of src/", "changes of not yet/", "changes of a.py"]


async def test_what_cannot_be_named_whole_is_not_offered_always(tmp_path: Path) -> None:
    asked = Asked(tmp_path, ALWAYS, ONCE)
    long = file(tmp_path / ("d" * 30 + "ir" * 90) / "a.py")
    assert await asked.decide(long, long) == ["allowed", "allowed"]
    assert asked.offered == ["", ""]


async def test_remembered_answer_applies_to_its_scope_alone(tmp_path: Path) -> None:
    src, beside = tmp_path / "src", tmp_path / "src-else"
    asked = Asked(tmp_path, ALWAYS, PermissionAnswer(outcome="rejected", remember=True), ONCE)
    assert await asked.decide(file(src / "a.py"), file(src / "deep" / "b.py")) == ["allowed", "allowed"]
    assert await asked.decide(file(beside / "a.py"), file(beside / "b.py")) == ["rejected", "rejected"]
    assert await asked.decide(StatementSubject("x")) == ["allowed"]
    assert len(asked.user.questions) == 3


async def test_a_command_that_goes_on_with_another_is_asked_about(tmp_path: Path) -> None:
    asked = Asked(tmp_path, ALWAYS, *[PermissionAnswer(outcome="rejected")] * 3)
    outcomes = await asked.decide(
        *map(command, ["git status", "git status -s", "git status; rm x", "git status\nrm x", "git statusx"])
    )
    assert outcomes == ["allowed", "allowed", "rejected", "rejected", "rejected"]


async def test_the_latest_answer_that_covers_it_counts(tmp_path: Path) -> None:
    no = PermissionAnswer(outcome="rejected", remember=True)
    asked = Asked(tmp_path, no)
    assert await asked.decide(command("make")) == ["rejected"]
    asked.log.append(
        PermissionAnswered(
            tool_call_id=CALL, scope='commands in:["/w","make","test"]', outcome="allowed", remembered=True
        )
    )
    assert await asked.decide(command("make test"), command("make")) == ["allowed", "rejected"]


@pytest.mark.parametrize(
    ("name", "longest", "longer"),
    [
        ("statement", StatementSubject("x" * ASKED_CHARS), StatementSubject("x" * (ASKED_CHARS + 1))),
        ("command", command("x" * ASKED_CHARS), command("x" * (ASKED_CHARS + 1))),
    ],
)
async def test_what_cannot_be_shown_whole_is_not_asked_about(
    tmp_path: Path, name: str, longest: PermissionSubject, longer: PermissionSubject
) -> None:
    asked = Asked(tmp_path, ONCE)
    verdict = await asked.questions.decide(CALL, longer)
    assert verdict.outcome == "rejected"
    assert verdict.reason.startswith(f"The user was not asked about this {name}: it has 1,000,001 characters")
    assert verdict.reason.endswith("Split it up.")
    assert not [event for event in asked.log.events if isinstance(event, PermissionAsked)]
    assert await asked.decide(longest) == ["allowed"]


SPELLED = {
    "quotes": 'a-"secret-of-mine; ls; echo "x',
    "line break": "a-secret\n-of-mine",
    "continued line": "a-secret\\\n-of-mine",
    "escape": "a-secret\\x2dof-mine",
    "title of a terminal": "a-secret\x1b]0;ls;\x07-of-mine",
    "mark after an escape character": 'echo "\x1b[a"-secret-of-mine; ls',
}


@pytest.mark.parametrize("text", SPELLED.values(), ids=SPELLED)
async def test_a_secret_whose_quoting_would_be_hidden_is_not_asked_about(tmp_path: Path, text: str) -> None:
    call = ServerCallSubject(server="s", tool="t", arguments=json.dumps({"command": ["x", text]}))
    for name, subject in {"statement": StatementSubject(text), "command": command(text), "call": call}.items():
        asked = Asked(tmp_path, ONCE, secrets=(SECRET,))
        assert (await asked.questions.decide(CALL, subject)).reason == NOT_LEGIBLE.format(name)
        assert not [event for event in asked.log.events if isinstance(event, PermissionAsked)]
    asked = Asked(tmp_path, ONCE, ONCE, secrets=(SECRET,))
    old = f"x\n{text}\n"
    change = TextChange(line=1, old=old, new=f"y\n{text}\n")
    added = FileSubject(path="/w/a", changes=(change, replace(change, new=f"{old}{text}\n")), note="a note")
    assert await asked.decide(added, replace(added, changes=(change,))) == ["allowed", "allowed"]
    assert [question.subject.note for question in asked.user.questions] == [f"a note\n{HIDDEN_QUOTING}", "a note"]


async def test_another_quoting_of_a_secret_in_a_file_is_named(tmp_path: Path) -> None:
    asked = Asked(tmp_path, ONCE, secrets=(SECRET,))
    change = TextChange(line=1, old=': a-"secret-of-mine"\n', new=': "a-"secret-of-mine; ls; echo "x"\n')
    assert await asked.decide(FileSubject(path="/w/a", changes=(change,))) == ["allowed"]
    assert asked.user.questions[0].subject.note == HIDDEN_QUOTING


async def test_a_call_is_asked_about_because_its_arguments_are_data(tmp_path: Path) -> None:
    asked = Asked(tmp_path, ONCE, secrets=('a"secret-of-mine',))
    arguments = '{"key": "a\\"secret-of-mine"}'
    assert await asked.decide(ServerCallSubject(server="s", tool="t", arguments=arguments)) == ["allowed"]
    assert asked.user.questions[0].subject == ServerCallSubject(server="s", tool="t", arguments='{"key": "***"}')


@pytest.mark.parametrize("text", [SECRET, f"echo '{SECRET}'", f'X="{SECRET}"\n', "YS1zZWNyZXQtb2YtbWluZQ=="])
async def test_a_secret_without_quoting_is_asked_about(tmp_path: Path, text: str) -> None:
    asked = Asked(tmp_path, ONCE, secrets=(SECRET,))
    assert await asked.decide(command(text)) == ["allowed"]
    assert "***" in asked.user.questions[0].subject.command


CHANGE = (TextChange(line=1, old=None, new=f"{SECRET}\n" * 60_000),)


@pytest.mark.parametrize(
    "subject",
    [FileSubject(path="/w/a", changes=CHANGE), TreeSubject(act="rename", paths=("/s/a", "/w/a"), changes=CHANGE)],
    ids=["file", "tree"],
)
async def test_overlong_change_is_asked_about_with_its_beginning(
    tmp_path: Path, subject: FileSubject | TreeSubject
) -> None:
    asked = Asked(tmp_path, ONCE, ONCE)
    assert await asked.decide(subject) == ["allowed"]
    shown = asked.change
    (change,) = shown.changes
    assert change.new == CHANGE[0].new[:ASKED_CHARS]
    assert change.left_out == LeftOut(1_176, 0)
    assert "this diff is cut to 1,000,000 of 1,020,000 characters, and omits 1,176 " in shown.note
    assert change_size((change,)) == (60_000, 0)


async def test_secret_at_the_cut_of_a_change_is_hidden(tmp_path: Path) -> None:
    asked = Asked(tmp_path, ONCE, secrets=(SECRET,))
    text = "x" * (ASKED_CHARS - 8) + SECRET + "x" * ASKED_CHARS
    await asked.decide(file(tmp_path / "a", text))
    (change,) = asked.change.changes
    assert len(change.new) == ASKED_CHARS
    assert SECRET[:4] not in change.new


async def test_a_yes_to_a_resource_covers_no_other_resource(tmp_path: Path) -> None:
    def read(uri: str) -> ServerCallSubject:
        return ServerCallSubject(server="s", tool=READ_RESOURCE, arguments=json.dumps({"uri": uri}))

    asked = Asked(tmp_path, ALWAYS, ONCE)
    await asked.decide(read("web://a/1"), read("web://a/1"), read("web://a/2"))
    assert [question.subject for question in asked.user.questions] == [read("web://a/1"), read("web://a/2")]
    assert asked.offered == ["reads of web://a/1 from the MCP server s", "reads of web://a/2 from the MCP server s"]


async def test_no_yes_to_what_acts_holds_when_files_have_appeared_that_others_run(tmp_path: Path) -> None:
    never = PermissionAnswer(outcome="rejected", remember=True)
    asked = Asked(tmp_path, ALWAYS, never, ALWAYS, ALWAYS, ONCE, ONCE)
    call = ServerCallSubject(server="s", tool="t", arguments="{}")
    change = file(tmp_path / "d/a.py")
    subjects = (command("git status"), command("make"), call, change)
    await asked.decide(*subjects, *subjects)
    assert len(asked.user.questions) == 4
    own = FileTouched(execution_id=ExecutionId("e"), path="/w/a")
    asked.log.append(own)
    await asked.decide(*subjects)
    assert len(asked.user.questions) == 4
    asked.log.append(replace(own, found=True))
    assert await asked.decide(*subjects) == ["allowed", "rejected", "allowed", "allowed"]
    assert [question.subject for question in asked.user.questions[4:]] == [command("git status"), call]


async def test_a_secret_is_neither_shown_nor_remembered(tmp_path: Path) -> None:
    asked = Asked(tmp_path, ALWAYS, ONCE, secrets=(SECRET,))
    await asked.decide(command(f"curl {SECRET}"), command(f"curl {SECRET}"))
    assert asked.offered == ["", ""]
    assert SECRET not in str(asked.user.questions)
    assert SECRET not in str(asked.log.events)


async def test_where_there_is_nobody_to_ask_the_answer_is_no(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    asked.questions.permissions = None
    assert await asked.decide(command("make")) == ["rejected"]


async def test_a_wait_that_is_torn_leaves_one_answer(tmp_path: Path) -> None:
    class Nobody:
        async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
            await anyio.sleep_forever()
            raise AssertionError

    asked = Asked(tmp_path)
    asked.questions.permissions = Nobody()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(asked.questions.decide, CALL, command("make"))
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    answers = [event for event in asked.log.events if isinstance(event, PermissionAnswered)]
    assert [(event.outcome, event.remembered) for event in answers] == [("cancelled", False)]


async def test_a_yes_to_a_resource_covers_no_tool_of_that_name(tmp_path: Path) -> None:
    def called(**arguments: str) -> ServerCallSubject:
        return ServerCallSubject(server="s", tool=READ_RESOURCE, arguments=json.dumps(arguments))

    asked = Asked(tmp_path, ALWAYS, ONCE)
    await asked.decide(called(uri="web://a/1"), called(uri="web://a/1", also="this"))
    assert len(asked.user.questions) == 2
    assert asked.offered[1:] == [""]
