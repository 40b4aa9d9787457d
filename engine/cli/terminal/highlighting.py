"""Code in colours. Pure, and the only module that knows the library that tells tokens apart, which is loaded late."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, cast

from .fragments import Fragment

HIGHLIGHTED_CHARS: Final = 50_000
"""A longer source stays plain, because nobody waits for its colours."""

Highlight = Callable[[str], list[Fragment]]
"""Divides a source into fragments that say the same."""


def plain(source: str) -> list[Fragment]:
    """The source without colours."""
    return [("", source)]


def python(source: str) -> list[Fragment]:
    """The source with a style for each of its tokens."""
    if len(source) > HIGHLIGHTED_CHARS:
        return plain(source)
    return [(_style(token), text) for _, token, text in _lexer().get_tokens_unprocessed(source)]


def coloured(source: str, language: str) -> list[Fragment]:
    """The source with a style for each of its tokens; plain where the language is unknown."""
    lexer = _lexer_of(language)
    if lexer is None or len(source) > HIGHLIGHTED_CHARS:
        return plain(source)
    return [(_style(token), text) for _, token, text in lexer.get_tokens_unprocessed(source)]


@cache
def _lexer() -> Any:
    from pygments.lexers.python import PythonLexer  # only where something is shown in colours

    return PythonLexer()


@cache
def _lexer_of(language: str) -> Any:
    from pygments import lexers  # as above
    from pygments.util import ClassNotFound

    try:
        return cast("Any", lexers).get_lexer_by_name(language)
    except ClassNotFound:
        return None


@cache
def _style(token: Any) -> str:
    from pygments.token import Comment, Keyword, Name, Number, Operator, String  # as above

    for parent, style in (
        (Comment, "comment"),
        (Keyword, "keyword"),
        (Operator.Word, "keyword"),
        (String, "string"),
        (Number, "number"),
        (Name.Function, "defined"),
        (Name.Class, "defined"),
        (Name.Decorator, "defined"),
    ):
        if token in parent:
            return style
    return ""
