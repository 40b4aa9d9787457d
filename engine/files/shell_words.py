"""The words of a shell command in git's configuration, as far as they show what it runs. The syntax is that of sh(1).

Nothing is expanded: variables, patterns and functions keep their spelling. Every word that is itself a command
(`sh -c '...'`) is split, too. Unbalanced quotation marks are ignored. Reads no files. Used by `git_configuration`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import Final

_CHARS: Final = 1 << 16
_MOST_WORDS: Final = 500
_NESTED: Final = 4
"""Levels of commands in the words of a command."""
_CACHED: Final = 1_000
"""Number of commands whose words are kept, because each question whether a path is protected splits them again."""
_ENDS: Final = re.compile(r"[\n`]")
"""Characters that separate commands, beside those that shlex knows."""
_PUNCTUATION: Final = frozenset("();<>|&")
_QUOTES: Final = re.compile(r"""["'\\]""")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_NO_FILE_NAME: Final = re.compile(r"""[\0\n$*?;|&<>`(){}"']""")
_INTERPRETER: Final = re.compile(
    r"(ba|da|z|k|a|fi|pw)?sh|(python|pypy|ruby|perl|lua|luajit|php)[\d.]*|node|nodejs|deno|bun|tsx|ts-node"
    r"|[gmn]?awk|tclsh|expect|Rscript|osascript|source|\."
)
"""Programs whose arguments name programs. Others such as `env` or `xargs` find what they run in PATH."""
_SCRIPT: Final = re.compile(
    r".+\.(sh|bash|zsh|ksh|fish|ps1|pyw?|[mc]?[jt]s|[jt]sx|rb|p[lm]|lua|php|awk|tcl|r|jl|go|java|groovy|kts|mk)",
    re.IGNORECASE | re.DOTALL,
)
_LISTS: Final = ("PATH", "GIT_EXEC_PATH", "LD_PRELOAD", "LD_LIBRARY_PATH")
_PATHS: Final = ("BASH_ENV", "ENV", "PYTHONSTARTUP", "GIT_")
_DATA: Final = re.compile(
    "GIT_(DIR|COMMON_DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|NAMESPACE|PREFIX|DEFAULT_HASH|REFLOG_ACTION"
    "|(AUTHOR|COMMITTER|ALTERNATE|CEILING|DISCOVERY|TRACE|MERGE|CONFIG_(KEY|VALUE|COUNT)).*)"
)
"""Variables of git that name no program, or only a repository, which is protected in a way of its own."""
_OPTIONS: Final = ("--exec-path", "--template")


def words_in(command: str) -> tuple[str, ...]:
    """Return the words of a command, and those of commands in its words."""
    return tuple(dict.fromkeys(word for words in _simple_commands(command) for word in words))


def assignments_in(command: str) -> Iterator[tuple[str, str]]:
    """Yield names and values of the variables that a command sets."""
    for found in map(_ASSIGNMENT.fullmatch, words_in(command)):
        if found:
            yield found[1], found[2]


def paths_given_in(command: str) -> tuple[str, ...]:
    """Return files and directories that a command names in variables and options from which programs come."""
    found: list[str] = []
    for name, value in assignments_in(command):
        if name in _LISTS:
            found += value.split(":")
        elif name.startswith(_PATHS) and not _DATA.fullmatch(name):
            found.append(value)
    options = (word.partition("=") for word in words_in(command))
    found += (value for name, _, value in options if name in _OPTIONS)
    return tuple(each for each in found if each and not _NO_FILE_NAME.search(each))


def run_if_created(command: str) -> frozenset[str]:
    """Return the words that name a program even if there is no such file yet.

    These are arguments with the suffix of a script, and the arguments of an interpreter, unless they are options. The
    first word is no file of the working directory without a slash, because shells look it up in PATH.
    """
    found: set[str] = set()
    for words in _simple_commands(command):
        arguments = [word for word in words if not _ASSIGNMENT.fullmatch(word)][1:]
        found.update(filter(is_script, arguments))
        after = iter(words)
        for word in after:
            if _INTERPRETER.fullmatch(word.rpartition("/")[2]):
                found.update(each.partition("=")[2] if each.startswith("-") else each for each in after)
    return frozenset(each for each in found if each and not _NO_FILE_NAME.search(each))


def is_script(word: str) -> bool:
    """Return whether a word ends like the name of a script."""
    return _SCRIPT.fullmatch(word) is not None


@lru_cache(_CACHED)
def _simple_commands(command: str) -> tuple[tuple[str, ...], ...]:
    return tuple(islice(_split(command.lstrip("!")[:_CHARS], _NESTED), _MOST_WORDS))


def _split(text: str, levels: int) -> Iterator[tuple[str, ...]]:
    """Yield the words of each simple command: the parts between `;`, `|` and the like, without targets of output."""
    words: list[str] = []
    is_target = False
    for token in _tokens(_ENDS.sub(" ; ", text)):
        if token and _PUNCTUATION.issuperset(token):
            is_target = ">" in token
            if not is_target and "<" not in token:
                yield tuple(words)
                words = []
            continue
        if not is_target:
            words.append(token)
        is_target = False
        if levels and token not in ("", text) and not token.isidentifier():
            yield from (each for each in _split(token, levels - 1) if each != (token,))
    yield tuple(words)


def _tokens(text: str) -> Iterator[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    with suppress(ValueError):
        while (token := lexer.get_token()) is not None:
            yield token
        return
    yield from _tokens(_QUOTES.sub(" ", text))
