"""News of the feed until a model has read them, and the history of followed handles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.context.tail.feed import KEPT_EXPANSIONS, KEPT_HANDLES, KEPT_ITEMS, Feed
from engine.core.execution import Display, ExceptionInfo, ReplayMode
from engine.core.ids import ExecutionId, MessageId, ObjId, Seq, StatementId, ToolCallId
from engine.files.tails import Expansion
from engine.log.events import Event
from engine.log.events.conversation import AgentReasoning, AgentText, RunStop, ToolCall, UserMessage
from engine.log.events.execution import ExecutionFinished, StatementRecorded
from engine.log.events.going_back import Diverged, ReplayBegun, ReplayEnded, ReplayOutcome
from engine.log.events.nodes import GroupRecomputed, NodeChanged
from engine.log.events.session import EnvironmentRestored, ModelCallEnded, ProjectionSent, UsageReported, WorkStopped
from engine.log.timeline import Timeline
from tests.support.examples import examples

RESTORED = EnvironmentRestored(executions=2, divergences=("<statement 1> printed nothing",), loss="it was killed")
LOST = "the variables were lost: it was killed"
NEWS = ("<statement 1> printed nothing", LOST, "rebuilt in a new worker: 2 statements ran again")
ANSWER = AgentText(message_id=MessageId("m"), text="so")
STOP = RunStop(reason="completed", cause="end_turn")


class Log:
    """Stamps events as a log does, and has a Feed follow it."""

    def __init__(self, *events: Event) -> None:
        self.events: list[Event] = []
        self.timeline = Timeline(self.events.__getitem__)
        self.feed = Feed(self.timeline)
        self.add(*events)

    def add(self, *events: Event) -> Log:
        for event in events:
            stamped = replace(event, seq=Seq(len(self.events)))
            self.events.append(stamped)
            self.timeline.apply(stamped)
            self.feed.apply(stamped)
        return self

    def call(self, *reply: Event, meanwhile: tuple[Event, ...] = ()) -> Log:
        """A model call that is answered with `reply`, or not at all; and what happens while it goes on."""
        self.begin_call().add(*meanwhile, *reply)
        return self.add(ModelCallEnded(round_id=0, used=1, size=1, answered=bool(reply)))

    def begin_call(self) -> Log:
        return self.add(ProjectionSent(round_id=0, position=self.feed.position, size=1))

    def call_of_version_1(self, *reply: Event) -> Log:
        position = self.feed.position
        return self.add(*reply, ProjectionSent(round_id=0, answered=bool(reply), position=position, size=1))

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(item.text for item in self.feed.news.items)


def changed(text: str, node: str = "view-1.1") -> NodeChanged:
    return NodeChanged(obj_id=ObjId(node), obj_type="view", delta=text, is_source=True)


def test_what_a_group_was_made_anew_for_is_news() -> None:
    log = Log(GroupRecomputed(obj_id=ObjId("group-1.1"), delta="1 of 2 members changed: a"))
    log.add(GroupRecomputed(obj_id=ObjId("group-1.2"), delta=""))  # another one says it
    assert log.texts == ("1 of 2 members changed: a",)
    assert log.call(ANSWER).texts == ()


def ended(statement: str, **fields: object) -> ExecutionFinished:
    done = ExecutionFinished(
        execution_id=ExecutionId("x"), statement_id=StatementId(statement), status="ok", started_at=0, ended_at=0
    )
    return replace(done, **fields)


def recorded(number: int, call: str) -> StatementRecorded:
    return StatementRecorded(
        statement_id=StatementId(f"s{number}"), index=number, source="1 / 0\nx", tool_call_id=ToolCallId(call)
    )


def shown_by(number: int, text: str) -> ExecutionFinished:
    display = Display(obj_id=ObjId(f"view-{number}.1"), title="t", text=text, tokens=1)
    return ended(f"s{number}", displays=(display,))


def test_what_the_session_shows_by_itself_is_no_expansion() -> None:
    by_user, by_session = recorded(1, "c1"), replace(recorded(2, "c2"), statement_kind="meta")
    news = Log(by_user, shown_by(1, "x"), by_session, shown_by(2, "y")).feed.news
    assert [item.obj_id for item in news.expansions] == ["view-1.1"]


def test_a_rebuild_is_news_until_a_call_with_it_answers() -> None:
    assert Log(RESTORED).texts == NEWS
    assert Log(RESTORED, RESTORED).texts == NEWS
    assert Log(RESTORED).call(ANSWER).texts == ()
    assert Log(RESTORED).call().texts == NEWS


@pytest.mark.parametrize(
    "reply",
    [
        ANSWER,
        AgentReasoning(message_id=MessageId("m"), text="hm"),
        ToolCall(tool_call_id=ToolCallId("c"), tool="python", arguments={}),
    ],
)
def test_what_came_while_a_model_was_answering_is_news_still(reply: Event) -> None:
    assert Log(changed("one")).call(reply, meanwhile=(changed("two"),)).texts == ("two",)


def test_version_1_logs_use_ends_of_calls_and_stops() -> None:
    assert Log(changed("one")).call_of_version_1(ANSWER).texts == ()
    assert Log(changed("one")).call_of_version_1().texts == ("one",)
    log = Log(changed("one"), ANSWER)
    assert log.texts == ("one",)
    assert log.add(STOP).texts == ()


@pytest.mark.parametrize("answered", [False, None])
def test_a_call_of_which_nothing_came_back_has_read_nothing(answered: bool | None) -> None:
    log = Log(changed("one")).begin_call()
    assert log.add(ModelCallEnded(round_id=0, used=1, size=1, answered=answered), STOP).texts == ("one",)


@pytest.mark.parametrize(
    "other",
    [
        AgentText(message_id=MessageId("m"), text="a command's", aside=True),
        ToolCall(tool_call_id=ToolCallId("c"), tool="read", arguments={}, parent_id=ToolCallId("p")),
        UserMessage(message_id=MessageId("u"), text="hello"),
    ],
)
def test_what_no_model_answered_leaves_them(other: Event) -> None:
    assert Log(RESTORED, other, STOP).texts == NEWS


def test_in_an_old_log_each_call_counts() -> None:
    assert Log(changed("one"), UsageReported(used=1, size=2), changed("two")).texts == ("two",)


def test_what_a_rebuild_kept_from_acting_is_news() -> None:
    assert Log(WorkStopped(sentences=("thread 'a' was not allowed to call os.mkdir /x",))).texts == (
        "thread 'a' was not allowed to call os.mkdir /x",
    )


def test_a_failed_statement_is_news_if_no_result_shows_it() -> None:
    failure = ExceptionInfo(type="ZeroDivisionError", message="division by zero")
    log = Log(ToolCall(tool_call_id=ToolCallId("asked"), tool="python", arguments={}))
    log.add(recorded(1, "asked"), ended("s1", status="error", exception=failure))
    assert log.texts == ()
    log.add(recorded(2, "outside"), ended("s2"))
    assert log.texts == ()
    log.add(recorded(3, "another"), ended("s3", status="error", exception=failure))
    assert log.texts == ("statement 3, `1 / 0`, ended with status error: ZeroDivisionError: division by zero",)


def test_more_than_is_kept_is_counted_until_it_is_read() -> None:
    log = Log(*(changed(str(number)) for number in range(1_000)))
    news = log.feed.news
    assert (len(news.items), news.left_out, news.items[-1].text) == (KEPT_ITEMS, 1_000 - KEPT_ITEMS, "999")
    log.call(ANSWER)
    assert (log.feed.news.items, log.feed.news.left_out) == ((), 0)


def test_only_items_omitted_before_the_counted_call_are_read() -> None:
    log = Log(*(changed(str(number)) for number in range(KEPT_ITEMS + 3)))
    log.call(ANSWER, meanwhile=tuple(changed(f"during {number}") for number in range(KEPT_ITEMS + 2)))
    assert (len(log.feed.news.items), log.feed.news.left_out) == (KEPT_ITEMS, 2)


def test_outside_renders_are_kept_or_counted_until_read() -> None:
    log = Log()
    for number in range(100):
        log.add(recorded(number, f"outside-{number}"), shown_by(number, "x"))
    news = log.feed.news
    assert (len(news.expansions), news.expansions_left_out) == (KEPT_EXPANSIONS, 100 - KEPT_EXPANSIONS)
    assert news.expansions[-1] == Expansion("view-99.1")
    news = log.call(ANSWER, meanwhile=(recorded(100, "meanwhile"), shown_by(100, "late"))).feed.news
    assert ([item.obj_id for item in news.expansions], news.expansions_left_out) == (["view-100.1"], 0)


def test_a_handle_is_asked_for_once_at_each_policy() -> None:
    coarse = Display(obj_id=ObjId("view-1.1"), title="t", text="x", tokens=1, lod=1, budget=50, given=True)
    log = Log(recorded(1, "c1"), ended("s1", displays=(coarse,)))
    log.add(recorded(2, "c2"), shown_by(1, "x"), ended("s2", displays=(coarse,)))
    assert log.feed.news.expansions == (Expansion("view-1.1"), Expansion("view-1.1", 1, 50, is_own=False))


def test_the_last_read_change_of_a_handle_stays_listed() -> None:
    log = Log(changed("one"), changed("other", "view-1.2"), RESTORED)
    assert log.feed.news.earlier == ()
    log.call(ANSWER)
    log.add(changed("two"), GroupRecomputed(obj_id=ObjId("group-1.3"), delta="x")).call(ANSWER)
    assert [item.text for item in log.feed.news.earlier] == ["other", "two", "x"]
    for number in range(KEPT_HANDLES):
        log.add(changed(str(number), f"view-2.{number}"))
    assert len(log.call(ANSWER).feed.news.earlier) == KEPT_HANDLES


def differed(before: str, after: str, statement: int = 2) -> Diverged:
    return Diverged(
        execution_id=ExecutionId("y"),
        against=ExecutionId("x"),
        statement=statement,
        aspect="status",
        before=before,
        after=after,
    )


def replayed(mode: ReplayMode, *events: Event, outcome: ReplayOutcome = "completed") -> tuple[Event, ...]:
    return ReplayBegun(first=2, last=2, mode=mode, statements=1), *events, ReplayEnded(outcome=outcome)


def test_replays_tell_the_net_difference_of_a_statement() -> None:
    first, second = replayed("live", differed("ok", "error")), replayed("live", differed("error", "timeout"))
    log = Log(*first, *second)
    assert log.texts == ("statement 2 ran again with a different result: status: timeout instead of ok",)
    assert log.add(*replayed("live", differed("timeout", "ok"))).texts == ()


@pytest.mark.parametrize(("mode", "outcome"), [("recorded", "completed"), ("dry", "completed"), ("live", "cancelled")])
def test_a_replay_that_changes_nothing_is_no_news(mode: ReplayMode, outcome: ReplayOutcome) -> None:
    rebuilt = EnvironmentRestored(executions=1)
    log = Log(*replayed(mode, differed("ok", "error"), rebuilt, outcome=outcome), rebuilt)
    assert log.texts == ()
    assert log.add(rebuilt).texts == ("rebuilt in a new worker: 1 statement ran again",)


def test_what_copies_healed_is_no_news() -> None:
    healed = replace(RESTORED, divergences=("one", "two"), healed=("one",), loss=None)
    assert Log(healed).texts == ("two", NEWS[2])


def test_a_failure_ends_when_the_statement_succeeds_in_a_live_replay() -> None:
    log = Log(recorded(3, "another"), ended("s3", status="error"))
    assert len(log.texts) == 1
    assert len(log.add(*replayed("live", ended("s3", status="error", mode="live"))).texts) == 1
    assert log.add(*replayed("live", ended("s3", mode="live"))).texts == ()


_STEPS = st.lists(
    st.sampled_from(
        ["change", "rebuild", "answered", "failed", "refused", "cancelled", "lost", "killed", "look", "aside"]
    ),
    max_size=40,
)


@examples(1)
@given(_STEPS, st.lists(st.booleans(), min_size=40, max_size=40))
def test_each_item_reaches_exactly_one_answered_call(steps: list[str], meanwhile: list[bool]) -> None:
    log, told, happened, replaced = Log(), list[str](), list[int](), set[int]()
    for number, (step, is_interrupted) in enumerate(zip(steps, meanwhile, strict=False)):
        between = (changed(f"during {number}"),) if is_interrupted else ()
        carried = log.texts
        match step:
            case "change":
                log.add(changed(f"change {number}"))
            case "rebuild":
                replaced |= {int(text.split()[5]) for text in carried if text.startswith("rebuilt")}
                log.add(EnvironmentRestored(executions=number))
            case "answered":
                log.call(ANSWER, meanwhile=between)
                told += carried
            case "failed" | "refused" | "cancelled":
                log.call(meanwhile=between)
            case "lost":
                # The host was lost after the first event of an answer, and the log was repaired.
                log.begin_call().add(*between, ANSWER)
                log.add(ModelCallEnded(round_id=0, used=1, size=1, answered=True), STOP)
                told += carried
            case "killed":
                log.begin_call().add(*between, ModelCallEnded(round_id=0, used=1, size=1, answered=None), STOP)
            case "look":
                assert log.texts == carried
            case _:
                log.add(AgentText(message_id=MessageId("m"), text="/context", aside=True))
        is_call = step in ("answered", "failed", "refused", "cancelled", "lost", "killed")
        if step in ("change", "rebuild") or (is_call and is_interrupted):
            happened.append(number)
    told += log.texts
    numbers = [int("".join(filter(str.isdigit, text))) for text in told]
    # Of several rebuilds only the last is told.
    assert set(numbers) == set(happened).difference(replaced)
    assert len(numbers) == len(set(numbers))
