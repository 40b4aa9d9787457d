"""The pictures of one session: decoded, kept in the store, read again, and chosen for a model call.

Contents leave the session only as `PictureContent`: what the decoder wrote, here or in an earlier process. Each content
is searched for secrets before it is stored. Pixels are not searched: a screenshot of a key shows the key. One
`SessionPictures` for each session, made by `parts`; it must not know who gave a picture or who sees it.

A model call sends nothing to a model that takes no pictures, and no picture that a provider has refused. The latest
pictures that fit the limits of a request and half of the budget are sent. The first one that is sent moves by `STEP`
pictures at a time, because each move changes the beginning of the prompt, which a provider caches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

import anyio.to_thread
import msgspec
import xxhash
from msgspec.structs import replace

from ..core.errors import StoreError
from ..core.ids import BlobDigest
from ..core.links import target_of
from ..core.pictures import HAS_SECRET, LARGEST_BYTES, GivenPicture, Picture, PictureContent, is_picture, kind_of
from ..files.safe_open import opened_file
from ..log.events.conversation import Attachment
from ..log.redaction import Redactor
from ..log.store_protocol import Store
from ..log.user_message import Composed, with_pictures

if TYPE_CHECKING:
    from ..runtime.picture_decoder import PictureDecoder
from collections.abc import Collection

from ..core.ids import EventId
from ..core.pictures import MOST_SENT, MOST_SENT_BYTES, PictureRule, picture_tokens
from ..log.events import Event
from ..log.events.conversation import ToolResult, UserMessage
from ..log.user_message import pictures_in

_ENDINGS: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_LINKED_BYTES: Final = 64_000_000
"""The most bytes of all files that one prompt links to."""
NO_DECODER: Final = "the process that decodes pictures is missing"


def _may_be_picture(attachment: Attachment) -> bool:
    is_link = attachment.picture is None and attachment.text is None
    return is_link and attachment.uri.lower().endswith(_ENDINGS)


def with_linked(
    attachments: Sequence[Attachment], given: Sequence[GivenPicture], roots: tuple[str, ...]
) -> tuple[tuple[Attachment, ...], tuple[GivenPicture, ...]]:
    """Return attachments and the pictures among them, in order; links to files of pictures become pictures.

    Only files in the session's directories that begin as pictures do, up to a size and a sum; others stay links, and
    are opened as views. Blocks.
    """
    came = iter(given)
    found: list[Attachment] = []
    pictures: list[GivenPicture] = []
    left = _LINKED_BYTES
    for each in attachments:
        data = _picture_in(each.uri, roots, min(left, LARGEST_BYTES)) if _may_be_picture(each) else b""
        if each.picture is not None:
            pictures.append(next(came))
        elif data:
            left -= len(data)
            pictures.append(GivenPicture(each.name, kind_of(data) or "", data, each.uri))
        found.append(replace(each, picture=Picture(name=each.name, size=len(data))) if data else each)
    return tuple(found), tuple(pictures)


def _picture_in(uri: str, roots: tuple[str, ...], most: int) -> bytes:
    """Return the file of a picture; empty if it is none, too long, or not in these directories."""
    path = target_of(uri).path
    if path is None:
        return b""
    try:
        with opened_file(path, roots) as file:
            data = file.read(most + 1)
    except (OSError, ValueError):
        return b""
    return data if kind_of(data) and len(data) <= most else b""


class SessionPictures:
    """Keeps pictures and returns their contents.

    `decoder` makes that of the process when it is first needed; None if there is none. `roots` are the session's
    directories.
    """

    def __init__(
        self,
        store: Store,
        redactor: Redactor,
        decoder: Callable[[], PictureDecoder] | None,
        roots: tuple[str, ...] = (),
    ) -> None:
        self._roots = roots
        self._store = store
        self._redactor = redactor
        self._decoder = decoder

    async def attach(self, said: Composed, *, with_links: bool = False) -> Composed:
        """Keep the pictures of a prompt; return it with them in the place of what came.

        `with_links`: files of pictures that it links to are pictures, too.
        """
        if with_links:
            attachments, given = await self.linked(said.attachments, said.given)
            said = replace(said, attachments=attachments, given=given)
        return replace(said, attachments=with_pictures(said.attachments, await self.keep(said.given)), given=())

    async def linked(
        self, attachments: Sequence[Attachment], given: Sequence[GivenPicture]
    ) -> tuple[tuple[Attachment, ...], tuple[GivenPicture, ...]]:
        """Return attachments and the pictures among them, with the files of pictures that they link to."""
        if not any(map(_may_be_picture, attachments)):
            return tuple(attachments), tuple(given)
        return await anyio.to_thread.run_sync(with_linked, attachments, given, self._roots)

    async def keep(self, given: Sequence[GivenPicture]) -> Sequence[Picture]:
        """Decode pictures and keep them. One that cannot be kept has a `problem`, and no content."""
        decoder = self._decoder() if given and self._decoder is not None else None
        return [await anyio.to_thread.run_sync(self._kept, each, decoder) for each in given]

    def _kept(self, given: GivenPicture, decoder: PictureDecoder | None) -> Picture:
        if decoder is None:
            digest = xxhash.xxh3_128_hexdigest(given.data)
            return Picture(name=given.name, size=len(given.data), digest=digest, problem=NO_DECODER)
        decoded = decoder.decode(given)
        if decoded.content is None:
            return decoded.picture
        storable = self._redactor.storable(decoded.content)
        if storable is None:
            return replace(decoded.picture, problem=HAS_SECRET)
        try:
            return replace(decoded.picture, content=self._store.blob_put(storable))
        except StoreError as error:
            return replace(decoded.picture, problem=str(error))

    def content(self, picture: Picture) -> PictureContent | None:
        """Return the content of a picture; None if it has none, or the store has lost it."""
        if picture.content is None:
            return None
        try:
            data = self._store.blob_get(picture.content)
        except (KeyError, StoreError):
            return None
        return PictureContent(data) if is_picture(picture.media_type, data) else None

    def blocks(self, answer: BlobDigest) -> Sequence[Mapping[str, object]]:
        """Return the blocks of an MCP server's stored answer; none if it is lost, or no such answer."""
        try:
            decoded: object = msgspec.json.decode(self._store.blob_get(answer))
        except (KeyError, StoreError, msgspec.DecodeError):
            return ()
        blocks: object = cast("dict[str, object]", decoded).get("content") if isinstance(decoded, dict) else None
        found = cast("list[object]", blocks) if isinstance(blocks, list) else []
        return [cast("Mapping[str, object]", block) for block in found if isinstance(block, dict)]

    async def contents(self, pictures: Iterable[Picture]) -> Mapping[BlobDigest, PictureContent]:
        """Return the contents of pictures by digest, without those that cannot be read."""
        wanted = {picture.content: picture for picture in pictures if picture.content is not None}
        if not wanted:
            return {}
        return await anyio.to_thread.run_sync(self._contents, wanted)

    def _contents(self, wanted: Mapping[BlobDigest, Picture]) -> Mapping[BlobDigest, PictureContent]:
        found = {digest: self.content(picture) for digest, picture in wanted.items()}
        return {digest: content for digest, content in found.items() if content is not None}


STEP: Final = 10
TAKES_NONE: Final = "this model does not accept pictures"
WITHDRAWN: Final = "not sent again, because a provider refused this picture"
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
