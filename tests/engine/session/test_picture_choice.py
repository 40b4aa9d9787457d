"""Which pictures a model call sends: those that its model takes, within the limits, and none that was refused."""

from __future__ import annotations

import pytest

from engine.context.tail.feed import LogNews
from engine.context.tail.prompt import MESSAGE_OVERHEAD
from engine.context.view.view import View
from engine.core.ids import BlobDigest, EventId, MessageId, Seq, ToolCallId
from engine.core.pictures import MOST_SENT, MOST_SENT_BYTES, Picture, PictureRule, description, picture_tokens
from engine.log.events import Event
from engine.log.events.conversation import Attachment, ToolCall, ToolResult, UserMessage
from engine.log.events.session import PicturesWithdrawn
from engine.log.facts import SessionFacts
from engine.log.user_message import PICTURE_URI
from engine.session.model_calls.projector import Projection, Projector
from engine.session.pictures import NO_ROOM, STEP, TAKES_NONE, WITHDRAWN, choose, pictures_of
from tests.support.hollow import HollowEnvironment
from tests.support.models import Reads
from tests.support.timelines import timeline_of

pytestmark = pytest.mark.anyio
ROOM = 1_000_000


def picture(number: int, size: int = 100, width: int = 30, height: int = 20) -> Picture:
    return Picture(
        name=f"{number}.png",
        media_type="image/png",
        content=BlobDigest(f"blake2b-{number:040}"),
        width=width,
        height=height,
        size=size,
        digest=f"{number}",
    )


def shown(number: int, *pictures: Picture) -> UserMessage:
    attachments = tuple(Attachment(uri=PICTURE_URI, name=each.name, picture=each) for each in pictures)
    return UserMessage(
        seq=Seq(number),
        event_id=EventId(f"e{number}"),
        at=1.0,
        message_id=MessageId(f"m{number}"),
        text="see",
        attachments=attachments,
    )


def reasons(
    messages: list[Event],
    rule: PictureRule | None = "anthropic",
    withdrawn: frozenset[BlobDigest] = frozenset(),
    room: int = ROOM,
) -> list[str]:
    """The reason for each picture that is not sent, in order; empty for those that are."""
    chosen = choose(messages, rule, withdrawn, room)
    return [each.problem for message in messages for each in pictures_of(chosen.get(message.event_id, message))]


def test_a_model_without_pictures_is_told_of_them() -> None:
    assert reasons([shown(1, picture(1))], None) == [TAKES_NONE]
    assert reasons([shown(1, picture(1))]) == [""]


def test_a_withdrawn_picture_is_never_sent() -> None:
    assert reasons([shown(1, picture(1), picture(2))], withdrawn=frozenset([BlobDigest(f"blake2b-{1:040}")])) == [
        WITHDRAWN,
        "",
    ]


def test_a_picture_with_a_problem_keeps_it() -> None:
    broken = Picture(name="a.svg", problem="only PNG", size=3)
    assert reasons([shown(1, broken, picture(1))], None) == ["only PNG", TAKES_NONE]


@pytest.mark.parametrize("size", [100, MOST_SENT_BYTES // 50])
def test_the_latest_pictures_within_the_limits_are_sent(size: int) -> None:
    messages: list[Event] = [shown(number, picture(number, size)) for number in range(200)]
    told = reasons(messages)
    sent = told.count("")
    assert 0 < sent <= min(MOST_SENT, MOST_SENT_BYTES // size)
    assert told == [NO_ROOM] * (200 - sent) + [""] * sent
    assert (200 - sent) % STEP == 0


def test_the_beginning_moves_in_steps() -> None:
    messages: list[Event] = [shown(number, picture(number)) for number in range(130)]
    begins = [reasons(messages[:count]).count(NO_ROOM) for count in range(1, 130)]
    assert sorted(set(begins)) == [0, 10, 20, 30]


def test_pictures_take_the_given_room_at_most() -> None:
    large = [shown(number, picture(number, width=1500, height=1000)) for number in range(9)]
    assert reasons([*large], room=5_000) == [NO_ROOM] * 7 + [""] * 2


@pytest.mark.parametrize(
    ("rule", "width", "height", "tokens"),
    [
        ("anthropic", 1000, 1000, 1334),
        ("anthropic", 200, 200, 54),
        ("google", 384, 384, 258),
        ("google", 960, 540, 258 * 6),
        ("openai-tiles", 1024, 1024, 85 + 170 * 4),
        ("openai-tiles", 512, 512, 85 + 170),
        ("openai-patches", 1024, 1024, 2520),
    ],
)
def test_tokens_follow_the_rules_of_providers(rule: PictureRule, width: int, height: int, tokens: int) -> None:
    assert picture_tokens(picture(1, width=width, height=height), rule) == tokens


def test_description_names_size_and_reason() -> None:
    one = Picture(name="plot.png", media_type="image/png", width=800, height=600, size=40_000)
    assert description(one) == "[picture plot.png, 800x600, 40 KB]"
    broken = Picture(name="a\nb.svg", size=12, problem="the picture cannot be read")
    assert description(broken) == "[picture a\\nb.svg, 12 bytes: the picture cannot be read]"


# --- in the projection -----------------------------------------------------------------------------------------------


@pytest.fixture
def view() -> View:
    return View()


@pytest.fixture
def model() -> Reads:
    return Reads(picture_rule="anthropic")


async def projected(view: View, model: Reads, facts: SessionFacts, budget: int = 100_000) -> Projection:
    return await Projector(view, "/", budget, LogNews(timeline_of()), model, facts).project(HollowEnvironment())


async def test_pictures_are_counted_by_the_rule_of_the_model(view: View, model: Reads) -> None:
    view.append(shown(1, picture(1, width=750, height=100)))
    projector = Projector(view, "/", 100_000, LogNews(timeline_of()), model, SessionFacts())
    text = len("see\n[picture 1.png, 750x100, 100 bytes]") // 4
    assert (await projector.project(HollowEnvironment())).message_tokens == text + MESSAGE_OVERHEAD + 100
    model.picture_rule = "google"
    model.spec = "another"
    assert (await projector.project(HollowEnvironment())).message_tokens == text + MESSAGE_OVERHEAD + 258 * 3
    model.picture_rule = None
    projection = await projector.project(HollowEnvironment())
    told = len(f"see\n[picture 1.png, 750x100, 100 bytes: {TAKES_NONE}]") // 4
    assert projection.message_tokens == told + MESSAGE_OVERHEAD
    (message,) = projection.prompt.messages
    assert [each.content for each in pictures_of(message)] == [None]


async def test_results_show_their_pictures_too(view: View, model: Reads) -> None:
    call = ToolCall(seq=Seq(1), event_id=EventId("c"), at=1.0, tool_call_id=ToolCallId("c1"), tool="python")
    view.append(call)
    view.append(
        ToolResult(
            seq=Seq(2),
            event_id=EventId("r"),
            at=1.0,
            tool_call_id=ToolCallId("c1"),
            status="ok",
            text="<Figure>",
            pictures=(picture(1),),
        )
    )
    sent = (await projected(view, model, SessionFacts())).prompt.messages
    assert [picture.content for message in sent for picture in pictures_of(message)] == [picture(1).content]
    model.picture_rule = None
    sent = (await projected(view, model, SessionFacts())).prompt.messages
    assert [picture.problem for message in sent for picture in pictures_of(message)] == [TAKES_NONE]


async def test_withdrawn_pictures_and_models_without_them_are_remembered(view: View, model: Reads) -> None:
    view.append(shown(1, picture(1), picture(2)))
    facts = SessionFacts()
    projector = Projector(view, "/", 100_000, LogNews(timeline_of()), model, facts)

    async def told() -> list[str]:
        (message,) = (await projector.project(HollowEnvironment())).prompt.messages
        return [each.problem for each in pictures_of(message)]

    assert await told() == ["", ""]
    facts.apply(PicturesWithdrawn(model="one", reason="too large", pictures=(BlobDigest(f"blake2b-{1:040}"),)))
    assert await told() == [WITHDRAWN, ""]
    facts.apply(PicturesWithdrawn(model="one", reason="no pictures"))
    assert await told() == [TAKES_NONE, TAKES_NONE]
    model.spec = "another"
    assert await told() == [WITHDRAWN, ""]


async def test_an_upper_bound_counts_pictures(view: View, model: Reads) -> None:
    projector = Projector(view, "/", 20_000, LogNews(timeline_of()), model, SessionFacts())
    assert await projector.fits(HollowEnvironment())
    for number in range(5):
        view.append(shown(number, picture(number, width=1500, height=1500)))
    assert (await projector.project(HollowEnvironment())).used <= 20_000
