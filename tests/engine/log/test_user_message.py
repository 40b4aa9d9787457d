"""A user's message: the sentence with its mentions in their places, and the blocks as they came."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.ids import MessageId
from engine.log.events.codec import decode, encode
from engine.log.events.conversation import Attachment, UserMessage
from engine.log.user_message import (
    EMBEDDED_CHARS,
    MAX_TEXT_CHARS,
    SYSTEM_URI,
    Block,
    blocks_of,
    compose,
    is_long_text,
    spoken_text,
    unopened,
    user_text,
)

CALC = Attachment(uri="file:///w/calc.py", name="calc.py")
NOTES = Attachment(uri="file:///w/notes.md", name="notes.md", text="# Notes\n")


def message(*blocks: Block) -> UserMessage:
    composed = compose(blocks)
    return UserMessage(
        message_id=MessageId("m"), text=composed.text, attachments=composed.attachments, content=composed.content
    )


@pytest.mark.parametrize(
    ("blocks", "typed", "read"),
    [
        (("1 + 1",), "1 + 1", "1 + 1"),
        (("look at ", CALC, " and fix it"), "look at  and fix it", "look at [calc.py](file:///w/calc.py) and fix it"),
        (("fix (", CALC, "), please"), "fix (), please", "fix ([calc.py](file:///w/calc.py)), please"),
        (("look", CALC), "look", "look\n[calc.py](file:///w/calc.py)"),
        (("look ", CALC), "look ", "look [calc.py](file:///w/calc.py)"),
        (
            (CALC, NOTES),
            "",
            "[calc.py](file:///w/calc.py)\n[notes.md](file:///w/notes.md)\n\n"
            "notes.md as attached to this prompt:\n```\n# Notes\n```",
        ),
        (("look", CALC, "again"), "look\nagain", "look\n[calc.py](file:///w/calc.py)\nagain"),
        ((CALC, " fix it"), "fix it", "[calc.py](file:///w/calc.py) fix it"),
        (("a", "b"), "a\nb", "a\nb"),
    ],
)
def test_a_mention_keeps_its_place_in_the_sentence(blocks: tuple[Block, ...], typed: str, read: str) -> None:
    assert message(*blocks).text == typed
    assert user_text(message(*blocks)) == read


def test_spoken_text_names_its_attachments() -> None:
    assert spoken_text(message("look at ", CALC, " and fix it")) == "look at calc.py and fix it"


def test_order_of_blocks_is_kept_only_when_needed() -> None:
    assert message("look", CALC, NOTES).content == ()
    assert message("look at ", CALC, " and ", NOTES).content == ("look at ", 0, " and ", 1)


blocks = st.lists(st.one_of(st.text(max_size=8), st.sampled_from([CALC, NOTES])), max_size=8)


@given(blocks)
def test_the_blocks_come_back_as_they_were(said: list[Block]) -> None:
    kept = decode(encode(message(*said)))
    assert isinstance(kept, UserMessage)
    assert blocks_of(kept) == said or said == [""]
    assert isinstance(user_text(kept), str)


def test_older_message_is_text_then_attachments() -> None:
    old = UserMessage(message_id=MessageId("m"), text="look", attachments=(CALC,))
    assert blocks_of(old) == ["look", CALC]


def test_places_that_a_foreign_log_invents_are_left_out() -> None:
    odd = UserMessage(message_id=MessageId("m"), text="x", attachments=(CALC,), content=("x", 7, -1, 0))
    assert blocks_of(odd) == ["x", CALC]


def test_overlong_text_is_attached_and_its_beginning_stays() -> None:
    long = "word " * (MAX_TEXT_CHARS // 5 + 1)
    kept = message("short", long)
    assert [block if isinstance(block, str) else block.text for block in blocks_of(kept)] == ["short", long]
    (attached,) = kept.attachments
    assert is_long_text(attached)
    assert user_text(kept) == kept.text
    assert kept.text.startswith("short\nword word")
    assert kept.text.endswith("... 996005 more characters of this prompt, attached as prompt.txt")


def test_a_text_of_the_most_characters_stays_a_text() -> None:
    assert message("x" * MAX_TEXT_CHARS).attachments == ()


def test_longest_texts_are_attached_first() -> None:
    half = "x" * (MAX_TEXT_CHARS // 2)
    kept = message(half, half + "y", "z")
    assert [isinstance(block, str) for block in blocks_of(kept)] == [True, False, True]


def test_a_link_that_is_not_opened_says_why() -> None:
    web = Attachment(uri="https://example.org/x", name="x")
    assert unopened(web) == (
        "https://example.org/x was not opened: linked web pages are not fetched; paste the text, or save the page as a"
        " file."
    )
    assert user_text(message("see ", web)).startswith(
        "see [x](https://example.org/x) (not opened: linked web pages are not"
    )
    assert unopened(Attachment(uri="zed:///thread/1", name="thread", text="came with it")) is None
    assert unopened(Attachment(uri="src/a.py", name="a.py")) is None


def test_a_model_reads_an_embedded_text_once_and_within_bounds() -> None:
    text = "".join(f"line {number}\n" for number in range(1, 5001))
    long = Attachment(uri="file:///w/a.py#L4000:4003", name="a.py", text=text)
    read = user_text(message("see ", long, " and ", long, " and ", NOTES))
    assert read.startswith("see [a.py](file:///w/a.py#L4000:4003) and [a.py](file:///w/a.py#L4000:4003) and [notes.md]")
    assert read.count("line 4000\n") == 1
    assert "... 38883 more characters before this part; the view shows them\nline 4000\nline 4001\n" in read
    assert "# Notes" in read
    assert len(read) < EMBEDDED_CHARS + 1_000
    whole = user_text(message(Attachment(uri="file:///w/a.py", name="a.py", text=text)))
    assert "\n```\nline 1\nline 2\n" in whole
    assert "more characters in its view\n```" in whole
    assert len(whole) < EMBEDDED_CHARS + 1_000


def test_fence_is_longer_than_any_in_the_text() -> None:
    fenced = Attachment(uri="file:///w/a.md", name="a.md", text="````python\n1\n````")
    assert "\n`````\n````python\n1\n````\n`````" in user_text(message(fenced))
    assert user_text(message(Attachment(uri="file:///w/a.md", name="a.md", text=""))) == "[a.md](file:///w/a.md)"


def test_imported_system_prompt_is_kept_but_not_read() -> None:
    kept = Attachment(uri=SYSTEM_URI, name="system prompt", text="Obey me.")
    assert "Obey me." not in user_text(message("hello", kept))
