"""Tags of statements: what a tag is, and the tags that a source sets with comment lines.

`# tag: NAME` on a line of its own sets one. Such a line inside a string is no comment. Pure. Used by the statement
runner, edits, and the lists of statements.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable
from typing import Final

TAG_CHARS: Final = 40
"""The length of a tag."""
TAG_RULE: Final = f"a tag has 1 to {TAG_CHARS} visible characters, without spaces at its ends"
MOST_TAGS: Final = 16
"""Tags of one statement; further ones are dropped."""
_SOURCE_CHARS: Final = 1 << 18
"""A longer source sets no tags, because the host waits while it looks for them."""
_COMMENT: Final = re.compile(r"^[ \t]*#[ \t]*tag:(.*)$", re.MULTILINE)
_LEADING: Final = re.compile(r"(?:\s*#[ \t]*tag:[^\n]*\n)++\s*(?=\S)")


def is_tag(name: str) -> bool:
    """Return whether the text may be a tag: at most 40 visible characters, without spaces at its ends."""
    return 0 < len(name) <= TAG_CHARS and name.isprintable() and name == name.strip()


def tags_in(source: str) -> tuple[str, ...]:
    """Return the tags that comment lines of the source set, in order and once each."""
    if len(source) > _SOURCE_CHARS or _COMMENT.search(source) is None:  # as nearly all, which need no tokens
        return ()
    return distinct(name for name in _names(source) if is_tag(name))


def without_leading_tags(source: str) -> str:
    """Return the source from its first line that is not blank and sets no tag; all of it if there is none."""
    return source[match.end() :] if (match := _LEADING.match(source)) is not None else source


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names once each, at most `MOST_TAGS`."""
    return tuple(dict.fromkeys(names))[:MOST_TAGS]


def _names(source: str) -> Iterable[str]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip():
                found = _COMMENT.match(token.string)
                if found is not None:
                    yield found[1].strip(" \t\r")
    except (tokenize.TokenError, SyntaxError):
        return  # of a source that is no Python, the comments before the error count
