"""Secrets on the command line of a program that is about to be started, and in the options around it.

Owns where a command line may hold one: an option, an assignment (`env API_KEY=V agent`), a header, a URL, JSON, or a
shell's command that holds any of them. Must not know which commands there are. What of a named value is secret is up to
`secrets`. Used by the start of `rewindow-conformance`, which is given the commands of foreign programs.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final, cast

from ..core.mcp_servers import HttpServer, StdioServer
from .secrets import find_secrets, server_secrets

_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][\w.]*)=(.+)", re.DOTALL)
_HEADER: Final = re.compile(r"([A-Za-z][A-Za-z0-9_-]*):(?!//)\s*(.+)", re.DOTALL)
_HEADER_OPTION: Final = re.compile(r"-H|--?[\w-]*header[\w-]*", re.IGNORECASE)
_HEADER_NAMES: Final = ("AUTHORIZATION", "*_AUTHORIZATION", "*COOKIE*")
"""Names of headers that are secret besides those of variables."""
_VARIABLE_OPTION: Final = "--env"
_DEEPEST: Final = 4
"""Shells within shells that are looked into."""


def command_line_secrets(words: Sequence[str], environ: Mapping[str, str], more_names: Iterable[str] = ()) -> list[str]:
    """Return the secret values on a command line.

    Args:
        words: the command line, with the options in front of the program.
        environ: the environment of this process: a value that it has under a plain name is no secret.
        more_names: patterns of secret names from the configuration, as in `find_secrets`.
    """
    names = (*more_names, *_HEADER_NAMES)
    found: list[str] = []
    for option, following in _pairs(words):
        for name, value in _named(option, following):
            found += find_secrets({_variable(name): value}, names).values
        if option == _VARIABLE_OPTION and (variable := _ASSIGNMENT.fullmatch(following)):
            # What somebody gives by hand is taken for a secret, whatever it is called.
            server = StdioServer(name="", command="", env={variable[1]: variable[2]})
            found += server_secrets(server, environ, more_names)
        if _HEADER_OPTION.fullmatch(option) and (header := _HEADER.fullmatch(following)):
            found += server_secrets(HttpServer(name="", url="", headers={header[1]: header[2]}), environ, more_names)
        if "://" in option:
            found += server_secrets(HttpServer(name="", url=option), environ, more_names)
    return list(dict.fromkeys(found))


def _pairs(words: Sequence[str], depth: int = 0) -> Iterator[tuple[str, str]]:
    """Each word with the next one, `--option=value` as two, and the words of a shell's command like others."""
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        name, equals, value = word.partition("=")
        if word.startswith("-") and equals:
            yield name, value
            yield value, ""
        else:
            yield word, following
        if depth < _DEEPEST and re.search(r"\s", word):
            yield from _pairs(_words_of(word), depth + 1)


def _words_of(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _named(word: str, following: str) -> Iterator[tuple[str, str]]:
    """The values that a word names."""
    if word.startswith("-"):
        yield word, following
    elif named := _ASSIGNMENT.fullmatch(word) or _HEADER.fullmatch(word):
        yield named[1], named[2]
    elif "://" in word:
        yield "", word  # the password in it
    yield from _fields(word)


def _fields(word: str) -> Iterator[tuple[str, str]]:
    """The texts of a word that is JSON, with the names of their fields."""
    try:
        stack: list[object] = [json.loads(word)] if word.lstrip()[:1] in ("{", "[") else []
    except (ValueError, RecursionError):
        return
    while stack:
        each = stack.pop()
        if isinstance(each, dict):
            fields = cast("dict[str, object]", each)
            yield from ((name, value) for name, value in fields.items() if isinstance(value, str))
            stack += fields.values()
        elif isinstance(each, list):
            stack += cast("list[object]", each)


def _variable(name: str) -> str:
    return name.strip("-").replace("-", "_").upper()
