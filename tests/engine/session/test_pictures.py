"""The pictures of a session: kept by digest, read again, and never with a secret or as something else."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from engine.core.errors import StoreError
from engine.core.ids import BlobDigest
from engine.core.pictures import HAS_SECRET, GivenPicture, Picture, PictureContent
from engine.log.redaction import NO_SECRETS, Redactor, Storable
from engine.log.store.memory import MemoryStore
from engine.log.user_message import PICTURE_URI, compose, pictures_in, user_text
from engine.runtime.picture_decoder import DecodedPicture
from engine.session.pictures import NO_DECODER, SessionPictures
from tests.engine.log.test_user_message import message
from tests.support.fixed import FixedClock
from tests.support.pictures import png

pytestmark = pytest.mark.anyio
GIVEN = GivenPicture("a.png", "image/png", b"what came")


class Decoder:
    """Decodes everything to the same content."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def decode(self, given: GivenPicture) -> DecodedPicture:
        picture = Picture(name=given.name, media_type="image/png", width=8, height=6, size=len(self._content))
        return DecodedPicture(picture, PictureContent(self._content))


def pictures(content: bytes | None, redactor: Redactor = NO_SECRETS, store: Any = None) -> SessionPictures:
    decoder = None if content is None else cast("Any", lambda: Decoder(content))
    return SessionPictures(store or MemoryStore(FixedClock()), redactor, decoder)


async def test_a_kept_picture_is_read_again() -> None:
    kept = pictures(png())
    (picture,) = await kept.keep([GIVEN])
    assert kept.content(picture) == png()
    assert await kept.contents([picture, picture]) == {picture.content: png()}


async def test_without_a_decoder_nothing_is_kept() -> None:
    (picture,) = await pictures(None).keep([GIVEN])
    assert (picture.content, picture.problem, picture.size) == (None, NO_DECODER, len(GIVEN.data))


async def test_a_content_with_a_secret_is_not_kept() -> None:
    (picture,) = await pictures(png() + b"sk-secret-value", Redactor(["sk-secret-value"])).keep([GIVEN])
    assert (picture.content, picture.problem) == (None, HAS_SECRET)


async def test_only_pictures_are_read_as_pictures() -> None:
    store = MemoryStore(FixedClock())
    digest = store.blob_put(Storable(b"a text that an imported log calls a picture"))
    picture = Picture(name="a", media_type="image/png", content=digest)
    assert pictures(png(), store=store).content(picture) is None
    assert pictures(png(), store=store).content(replace(picture, content=BlobDigest("blake2b-00"))) is None


async def test_a_store_that_fails_is_the_problem_of_the_picture() -> None:
    class Full(MemoryStore):
        def blob_put(self, data: Storable) -> BlobDigest:
            raise StoreError("the disk is full")

    (picture,) = await pictures(png(), store=Full(FixedClock())).keep([GIVEN])
    assert (picture.content, picture.problem) == (None, "the disk is full")


async def test_pictures_of_a_prompt_keep_their_places() -> None:
    said = compose(["see ", GIVEN, ", then ", replace(GIVEN, name="b.png", uri="file:///b.png"), "!"])
    assert [each.uri for each in said.attachments] == [PICTURE_URI, "file:///b.png"]
    attached = await pictures(png()).attach(said)
    assert attached.given == ()
    shown = replace(message("x"), text=attached.text, attachments=attached.attachments, content=attached.content)
    assert [each.name for each in pictures_in(shown)] == ["a.png", "b.png"]
    size = f"{len(png())} bytes"
    assert user_text(shown) == f"see [picture a.png, 8x6, {size}], then [picture b.png, 8x6, {size}]!"


async def test_blocks_of_an_answer_are_read_as_they_came() -> None:
    store = MemoryStore(FixedClock())
    kept = pictures(png(), store=store)
    blocks = [{"type": "audio", "data": "AAEC", "mimeType": "audio/wav"}]
    answer = store.blob_put(Storable(msgspec.json.encode({"content": [*blocks, "no block"], "data": None})))
    assert kept.blocks(answer) == blocks
    for other in (b"no JSON", b"[1]", b'{"content": 1}'):
        assert kept.blocks(store.blob_put(Storable(other))) in ((), [])
    assert kept.blocks(BlobDigest("blake2b-00")) == ()
