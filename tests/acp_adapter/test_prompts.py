"""Content blocks in, text and attachments out."""

from __future__ import annotations

import pytest

from acp_adapter.prompts import read_prompt
from acp_adapter.requests import Content
from acp_adapter.rpc.errors import ProtocolError
from acp_adapter.wire.negotiation import codec_for
from engine.events.conversation import Attachment

TEXT = {"type": "text", "text": "look"}


def blocks(*raw: dict[str, object]) -> tuple[Content, ...]:
    return codec_for(1).read_params("session/prompt", {"sessionId": "s", "prompt": list(raw)}).content


def test_text_blocks_are_joined_and_links_and_text_resources_attached_in_order() -> None:
    content = blocks(
        TEXT,
        {"type": "resource_link", "uri": "file:///w/a.py", "name": "a.py", "mimeType": "text/x-python"},
        {"type": "text", "text": "again"},
        {"type": "resource", "resource": {"uri": "mem://w/scratch/", "text": "kept"}},
    )
    assert read_prompt(content) == (
        "look\nagain",
        (
            Attachment(uri="file:///w/a.py", name="a.py", media_type="text/x-python"),
            Attachment(uri="mem://w/scratch/", name="scratch", text="kept"),
        ),
    )


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"type": "image", "data": "AA==", "mimeType": "image/png"}, "prompt[1]: image content is not advertised"),
        ({"type": "audio", "data": "AA==", "mimeType": "audio/wav"}, "prompt[1]: audio content is not advertised"),
        (
            {"type": "resource", "resource": {"uri": "x:", "blob": "AA=="}},
            "prompt[1]: binary resources are not supported",
        ),
    ],
)
def test_what_is_not_advertised_is_refused_with_its_place(block: dict[str, object], said: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        read_prompt(blocks(TEXT, block))
    assert caught.value.code == -32602
    assert caught.value.message.startswith(said)


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(ProtocolError, match="at least one content block"):
        read_prompt([])
