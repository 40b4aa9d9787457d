"""Content blocks become texts and attachments."""

from __future__ import annotations

import pytest

from acp_adapter import v1
from acp_adapter.content import contents_in
from acp_adapter.jsonrpc.messages import ProtocolError
from acp_adapter.wire import to_wire
from engine.core.pictures import GivenPicture
from engine.log.events.conversation import Attachment

TEXT = {"type": "text", "text": "look"}


def read_prompt(*raw: dict[str, object]) -> tuple[str | Attachment | GivenPicture, ...]:
    return v1.read_params("session/prompt", {"sessionId": "s", "prompt": list(raw)}).content


def test_blocks_become_texts_and_attachments_in_order() -> None:
    content = read_prompt(
        TEXT,
        {"type": "resource_link", "uri": "file:///w/a.py", "name": "a.py", "mimeType": "text/x-python", "size": 7},
        {"type": "text", "text": "again"},
        {"type": "resource", "resource": {"uri": "file:///w/sc%20ratch.py?x#L4:5", "text": "kept"}},
        {"type": "resource_link", "uri": "b", "name": "b", "size": 10**30, "title": "B"},
    )
    assert content == (
        "look",
        Attachment(uri="file:///w/a.py", name="a.py", media_type="text/x-python", size=7),
        "again",
        Attachment(uri="file:///w/sc%20ratch.py?x#L4:5", name="sc ratch.py", text="kept"),
        Attachment(uri="b", name="b", title="B"),
    )


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"type": "image", "data": "A", "mimeType": "image/png"}, "prompt[1]: the data of the image is not base64"),
        ({"type": "audio", "data": "AA==", "mimeType": "audio/wav"}, "prompt[1]: audio content is not advertised"),
        (
            {"type": "resource", "resource": {"uri": "x:", "blob": "AA=="}},
            "prompt[1]: binary resources are not supported",
        ),
    ],
)
def test_unadvertised_content_is_refused(block: dict[str, object], said: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        read_prompt(TEXT, block)
    assert caught.value.code == -32602
    assert caught.value.message.startswith(said)


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(ProtocolError, match="at least one content block"):
        read_prompt()


@pytest.mark.parametrize(
    ("block", "name", "uri"),
    [
        ({"type": "image", "data": "AAEC", "mimeType": "image/png"}, "picture-2", ""),
        (
            {"type": "image", "data": "AAEC", "mimeType": "image/png", "uri": "file:///a%20b.png"},
            "a b.png",
            "file:///a%20b.png",
        ),
        (
            {"type": "resource", "resource": {"uri": "x:/c.png", "blob": "AAEC", "mimeType": "image/png"}},
            "c.png",
            "x:/c.png",
        ),
    ],
)
def test_pictures_of_a_prompt_are_named(block: dict[str, object], name: str, uri: str) -> None:
    assert read_prompt(TEXT, block) == ("look", GivenPicture(name, "image/png", b"\0\1\2", uri))


def test_contents_of_a_server_stay_as_they_came() -> None:
    image = {"type": "image", "data": "AAEC", "mimeType": "image/png", "annotations": {"audience": ["user"]}}
    sound = {"type": "audio", "data": "AAEC", "mimeType": "audio/wav"}
    found = contents_in([{"type": "text", "text": "x"}, image, {"type": "image"}, {"type": "video"}, sound])
    assert [to_wire(each) for each in found] == [image, sound]
