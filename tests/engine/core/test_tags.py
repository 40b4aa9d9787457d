"""Tags in the comments of a source."""

from __future__ import annotations

import pytest

from engine.core.tags import MOST_TAGS, TAG_CHARS, is_tag, tags_in, without_leading_tags

LONG = "x" * TAG_CHARS


@pytest.mark.parametrize(
    ("source", "tags"),
    [
        ("# tag: a\nx = 1", ("a",)),
        ("x = 1\nif x:\n    #tag:a b  \n    y = 2\n# tag: c\n# tag: a b\n", ("a b", "c")),
        ("x = 1  # tag: a", ()),
        ("text = '''\n# tag: a\n'''", ()),
        ("# tags: a\n## tag: b\n# a tag: c", ()),
        (f"# tag:\n# tag: {LONG}x\n# tag: a\u200bb\n# tag: {LONG}", (LONG,)),
        ("# tag: a\nx = (", ("a",)),
        ("# tag: a\r\nx = 1\r\n", ("a",)),
        (f"# tag: a{' ' * 200_000}b\n{' ' * 50_000}x", ()),
        (f"# tag: a\n{' ' * (1 << 18)}", ()),
    ],
)
def test_tags_are_comment_lines(source: str, tags: tuple[str, ...]) -> None:
    assert tags_in(source) == tags


def test_tags_of_a_statement_are_limited() -> None:
    names = [f"t{number}" for number in range(MOST_TAGS + 1)]
    assert tags_in("\n".join(f"# tag: {name}" for name in names)) == tuple(names[:-1])


@pytest.mark.parametrize("name", ["", " a", "a ", "a\nb", "a\u200bb", f"{LONG}x"])
def test_invisible_or_long_text_is_no_tag(name: str) -> None:
    assert not is_tag(name)


@pytest.mark.parametrize(
    ("source", "rest"),
    [
        ("\n# tag: a\n\n#tag:b\n\nx = 1\n# tag: c", "x = 1\n# tag: c"),
        ("# a note\n# tag: a", "# a note\n# tag: a"),
        ("# tag: a\n# tag: b\n", "# tag: a\n# tag: b\n"),
    ],
)
def test_leading_tags_are_left_out_of_a_title(source: str, rest: str) -> None:
    assert without_leading_tags(source) == rest
