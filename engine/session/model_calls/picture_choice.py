"""Which pictures of the View a model call sends, and the reason why each other one is only described.

Nothing is sent to a model that takes no pictures, and no picture that a provider has refused. The latest pictures that
fit the limits of a request and half of the budget are sent. The first one that is sent moves by `STEP` pictures at a
time, because each move changes the beginning of the prompt, which a provider caches. Pure. Used by the projector.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from ...core.ids import BlobDigest, EventId
from ...core.pictures import MOST_SENT, MOST_SENT_BYTES, Picture, PictureRule, picture_tokens
from ...log.events import Event
from ...log.events.conversation import ToolResult, UserMessage
from ...log.user_message import pictures_in, with_pictures

STEP: Final = 10
TAKES_NONE: Final = "this model takes no pictures"
WITHDRAWN: Final = "withdrawn, because a provider refused it"
NO_ROOM: Final = "not sent again, to leave room for later pictures"


def pictures_of(event: Event) -> Sequence[Picture]:
    """Return the pictures of a message, in order."""
    match event:
        case UserMessage():
            return pictures_in(event)
        case ToolResult(pictures=pictures):
            return pictures
        case _:
            return ()


def sent_pictures(event: Event) -> Sequence[Picture]:
    """Return the pictures of a chosen message that are sent."""
    return [picture for picture in pictures_of(event) if picture.content is not None]


def tokens_of(event: Event, rule: PictureRule) -> int:
    """Count the tokens of the pictures of a chosen message."""
    return sum(picture_tokens(picture, rule) for picture in sent_pictures(event))


def choose(
    messages: Sequence[Event], rule: PictureRule | None, withdrawn: Collection[BlobDigest], room: int
) -> Mapping[EventId, Event]:
    """Return the messages with pictures that are not sent, with the reason in the place of each content.

    Args:
        messages: those of the View that have pictures, in order.
        rule: how the provider counts; None for a model that takes no pictures.
        withdrawn: the contents that a provider refused.
        room: the tokens that all pictures together may take.
    """
    sendable = [
        picture for message in messages for picture in sent_pictures(message) if picture.content not in withdrawn
    ]
    begin = 0 if rule is None else _begin(sendable, rule, room)
    chosen: dict[EventId, Event] = {}
    place = 0
    for message in messages:
        shown: list[Picture] = []
        for picture in pictures_of(message):
            is_sendable = picture.content is not None and picture.content not in withdrawn
            reason = _reason(picture, rule, is_sendable=is_sendable, has_room=place >= begin)
            shown.append(replace(picture, content=None, problem=reason) if reason else picture)
            place += is_sendable
        if tuple(shown) != tuple(pictures_of(message)):
            chosen[message.event_id] = _with(message, shown)
    return chosen


def _reason(picture: Picture, rule: PictureRule | None, *, is_sendable: bool, has_room: bool) -> str:
    if picture.content is None:
        return picture.problem
    if rule is None:
        return TAKES_NONE
    if not is_sendable:
        return WITHDRAWN
    return "" if has_room else NO_ROOM


def _begin(pictures: Sequence[Picture], rule: PictureRule, room: int) -> int:
    """Return the place of the first picture that is sent: 0, or a multiple of STEP."""
    tokens = size = 0
    for count, picture in enumerate(reversed(pictures)):
        tokens += picture_tokens(picture, rule)
        size += picture.size
        if tokens > room or size > MOST_SENT_BYTES or count == MOST_SENT:
            first = len(pictures) - count
            stepped = -(-first // STEP) * STEP
            return stepped if stepped < len(pictures) else first  # the latest are sent even if the step leaves none
    return 0


def _with(message: Event, pictures: Sequence[Picture]) -> Event:
    match message:
        case UserMessage():
            return replace(message, attachments=with_pictures(message.attachments, pictures))
        case ToolResult():
            return replace(message, pictures=tuple(pictures))
        case _:
            return message
