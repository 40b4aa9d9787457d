"""Markdown files with prompts: skills (`SKILL.md`, https://agentskills.io) and slash commands, of projects and users.

Owns where they are, which are valid, and how arguments are filled in. A project's files come from each directory
between the session's and the root of the repository, the nearest first; a user's from the home and configuration
directories. The first file of a name counts. A file runs nothing and grants nothing: all that is read of it is text.
The files are words of strangers, so everything is bounded, and a file that is not as it should be is a sentence for the
user. In a project, links out of it are not followed. Must not know prompts and sessions. Called by `session.guidance`
and `session.commands.custom`.
"""

from __future__ import annotations

import codecs
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import PurePath
from typing import Any, Final, Literal, NamedTuple, cast

from msgspec import Struct

from ..core.text import cut_line, first_line, legible_line, plural, whole_words_before_cut
from .project import project_root
from .safe_open import ANYWHERE, opened_directory, opened_file, user_roots

SKILL: Final = "SKILL.md"
FOLDERS: Final = (".agents", ".claude")
"""Where a project or a home directory has `skills` and `commands`."""
MOST_FILES: Final = 500
"""Skills, and likewise commands, that are looked at; the nearest ones first, in one directory by name."""
FILE_BYTES: Final = 1 << 20
"""The size of a file that can be used."""
NAME_CHARS: Final = 64
DESCRIPTION_CHARS: Final = 1_024
"""The limits of a skill's name and description in its format. A command's description is cut to the latter."""
MOST_PROBLEMS: Final = 10
"""Sentences about files that cannot be used; the others are counted."""
NO_FRONT_MATTER: Final = "the file does not begin with front matter between two lines `---`"
NOT_UTF_8: Final = "the file is not UTF-8"
TOO_LARGE: Final = f"the file has more than {FILE_BYTES >> 20} MiB"
OUTSIDE: Final = "the file cannot be read, or its path leads out of the project through a link"
NO_DESCRIPTION: Final = "the file has no description"
LONG_DESCRIPTION: Final = f"the description has more than {DESCRIPTION_CHARS:,} characters"
WRONG_NAME: Final = f"the name must have at most {NAME_CHARS} lower-case letters, digits and single hyphens"
OTHER_NAME: Final = "the name differs from the name of the folder"
NOT_A_COMMAND: Final = "the name must have at most 64 letters, digits, `-`, `_` and `.`, the first a letter or digit"
_FRONT_BYTES: Final = 64 << 10
"""How much of a file is read for its front matter."""
_HINT_CHARS: Final = 200
_MOST_DEPTH: Final = 4
_MOST_DIRECTORIES: Final = 64
_MOST_LISTED: Final = 100_000
"""Entries of one directory that are listed."""
_MARK: Final = "---"
_SKILL_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_COMMAND_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)
_LINE: Final = re.compile(r"([A-Za-z][\w-]*):[ \t]+(\S.*?)[ \t]*")
_PLACE: Final = re.compile(r"\$(ARGUMENTS\b|[1-9][0-9]?(?![0-9]))")
_ARGUMENTS: Final = "ARGUMENTS"

_YES, _NO = frozenset(("true", "yes", "on")), frozenset(("false", "no", "off"))

Kind = Literal["skill", "command"]


class PromptFile(Struct, frozen=True, kw_only=True):
    """A skill or a command.

    `path` is absolute, `roots` the directories that it must be in, links resolved. `hint` names the arguments.
    `for_models`: a model may choose it by itself. `for_people`: it can be called as a slash command.
    """

    kind: Kind
    name: str
    description: str
    path: str
    roots: tuple[str, ...]
    hint: str = ""
    for_models: bool = False
    for_people: bool = True


class PromptFiles(Struct, frozen=True):
    """What was found: each name once. `problems` are sentences about files that are not used."""

    skills: tuple[PromptFile, ...] = ()
    commands: tuple[PromptFile, ...] = ()
    problems: tuple[str, ...] = ()


class UnusableFileError(Exception):
    """A file cannot be used, for the reason in the message."""


class _Base(NamedTuple):
    """A directory that may have `skills` and `commands`."""

    path: str
    roots: tuple[str, ...]


def prompt_files(directory: str, home: str, config: str) -> PromptFiles:
    """Find the skills and commands for a session. Blocks; never raises for what it finds.

    Args:
        directory: the session's directory, absolute.
        home: the user's home directory, absolute.
        config: the user's configuration directory for this program, absolute.
    """
    bases = _bases(directory, home, config)
    finder = _Finder(directory, home)
    skills = finder.found("skill", bases)
    commands = finder.found("command", bases)
    return PromptFiles(skills, commands, finder.problems)


def text_of(file: PromptFile) -> str:
    """Return a file's text without its front matter. Blocks. Raises UnusableFileError."""
    return _split(_read(file.path, file.roots, FILE_BYTES))[1].strip()


def filled(text: str, argument: str) -> str:
    """Return the text with the arguments in their places.

    `$ARGUMENTS` is all that was typed, `$1` to `$99` are its words, where quotes keep words together. Without a place
    for them, arguments follow the text.
    """
    words = split_words(argument)

    def value(match: re.Match[str]) -> str:
        if match[1] == _ARGUMENTS:
            return argument
        number = int(match[1])
        return words[number - 1] if number <= len(words) else ""

    replaced, places = _PLACE.subn(value, text)
    return replaced if places or not argument else f"{text}\n\n{_ARGUMENTS}: {argument}"


def split_words(argument: str) -> list[str]:
    """Split what was typed as a shell would; by blanks alone if a quote has no end."""
    try:
        return shlex.split(argument)
    except ValueError:
        return argument.split()


def _bases(directory: str, home: str, config: str) -> list[_Base]:
    root = project_root(directory)
    roots = (os.path.realpath(root),)
    parts = PurePath(directory).relative_to(root).parts
    folders = [root, *(os.path.join(root, *parts[: count + 1]) for count in range(len(parts)))][-_MOST_DIRECTORIES:]
    of_project = [_Base(os.path.join(each, name), roots) for each in reversed(folders) for name in FOLDERS]
    of_users = [_Base(config, user_roots(config)), *(_Base(os.path.join(home, name), ANYWHERE) for name in FOLDERS)]
    paths = {base.path for base in of_users}  # a home directory may be a project
    return [*(base for base in of_project if base.path not in paths), *of_users]


class _Finder:
    """Collects files and problems."""

    def __init__(self, directory: str, home: str) -> None:
        self._directory = directory
        self._home = home
        self._problems: list[str] = []

    @property
    def problems(self) -> tuple[str, ...]:
        rest = len(self._problems) - MOST_PROBLEMS
        more = [f"{rest:,} more files with skills or commands cannot be used."] if rest > 0 else []
        return (*self._problems[:MOST_PROBLEMS], *more)

    def found(self, kind: Kind, bases: Sequence[_Base]) -> tuple[PromptFile, ...]:
        found: dict[str, PromptFile] = {}
        room = MOST_FILES
        for base in bases:
            folder = os.path.join(base.path, f"{kind}s")
            paths, left = (_skills_in if kind == "skill" else _commands_in)(folder, base.roots, room)
            room -= len(paths)
            if left:
                entries = plural(left, "folder" if kind == "skill" else "file")
                skipped = f"{left:,} {entries} in {self._shown(folder)}"
                self._problems.append(f"Rewindow reads at most {MOST_FILES} {kind}s, so it skips {skipped}.")
            for path in paths:
                try:
                    file = (_skill if kind == "skill" else _command)(path, base.roots)
                except UnusableFileError as error:
                    self._problems.append(f"{self._shown(path)} is not used as a {kind}, because {error}.")
                else:
                    found.setdefault(file.name, file)
        return tuple(found.values())

    def _shown(self, path: str) -> str:
        for place, mark in ((self._directory, ""), (self._home, "~/")):
            if path.startswith(f"{place.rstrip('/')}/"):
                path = mark + path[len(place.rstrip("/")) + 1 :]
                break
        return cut_line(legible_line(path), 200)


# --- directories ------------------------------------------------------------------------------------------------------


def _skills_in(folder: str, roots: tuple[str, ...], most: int) -> tuple[list[str], int]:
    """Return the paths of the skills in a directory, and how many folders were not looked at."""
    names = [name for name, is_file in _listed(folder, roots) if not is_file]
    paths = [os.path.join(folder, name, SKILL) for name in names[:most]]
    return [path for path in paths if os.path.lexists(path)], len(names[most:])


def _commands_in(folder: str, roots: tuple[str, ...], most: int) -> tuple[list[str], int]:
    """Return the paths of the commands in a directory and those below, and how many others were not looked at."""
    paths: list[str] = []
    left = 0
    waiting = [(folder, 0)]
    folders = 0
    while waiting:
        current, depth = waiting.pop(0)
        for name, is_file in _listed(current, roots):
            path = os.path.join(current, name)
            if is_file and name.endswith(".md"):
                paths.append(path)
            elif not is_file and depth < _MOST_DEPTH:
                if folders < most:
                    folders += 1
                    waiting.append((path, depth + 1))
                else:
                    left += 1
    return paths[:most], left + len(paths[most:])


def _listed(folder: str, roots: tuple[str, ...]) -> list[tuple[str, bool]]:
    """Return the visible entries of a directory, sorted, and whether each is no directory; none if it is elsewhere."""
    try:
        with opened_directory(folder, roots) as directory, os.scandir(directory) as entries:
            some = [entry for entry, _ in zip(entries, range(_MOST_LISTED), strict=False)]
            return sorted((entry.name, not entry.is_dir()) for entry in some if not entry.name.startswith("."))
    except (OSError, ValueError):
        return []


# --- files ------------------------------------------------------------------------------------------------------------


def _skill(path: str, roots: tuple[str, ...]) -> PromptFile:
    fields, _ = _split(_read(path, roots, _FRONT_BYTES))
    if fields is None:
        raise UnusableFileError(NO_FRONT_MATTER)
    name, description = _word(fields.get("name")), _word(fields.get("description"))
    if len(name) > NAME_CHARS or _SKILL_NAME.fullmatch(name) is None:
        raise UnusableFileError(WRONG_NAME)
    if name != os.path.basename(os.path.dirname(path)):
        raise UnusableFileError(OTHER_NAME)
    if not description:
        raise UnusableFileError(NO_DESCRIPTION)
    if len(description) > DESCRIPTION_CHARS:
        raise UnusableFileError(LONG_DESCRIPTION)
    return PromptFile(
        kind="skill",
        name=name,
        description=description,
        path=path,
        roots=roots,
        hint=_hint(fields.get("argument-hint")),
        for_models=not _is(fields, "disable-model-invocation", _YES),
        for_people=not _is(fields, "user-invocable", _NO),
    )


def _command(path: str, roots: tuple[str, ...]) -> PromptFile:
    name = os.path.basename(path).removesuffix(".md")
    if _COMMAND_NAME.fullmatch(name) is None:
        raise UnusableFileError(NOT_A_COMMAND)
    fields, text = _split(_read(path, roots, _FRONT_BYTES))
    fields = fields or {}
    description = _word(fields.get("description")) or legible_line(first_line(text).lstrip("# ")) or name
    return PromptFile(
        kind="command",
        name=name,
        description=cut_line(description, DESCRIPTION_CHARS),
        path=path,
        roots=roots,
        hint=_hint(fields.get("argument-hint")),
    )


def _read(path: str, roots: tuple[str, ...], most: int) -> str:
    """Return the first bytes of a file as text. Raises UnusableFileError."""
    try:
        with opened_file(path, roots) as file:
            if os.fstat(file.fileno()).st_size > FILE_BYTES:
                raise UnusableFileError(TOO_LARGE)
            data = file.read(most)
            is_whole = not file.read(1)
    except (OSError, ValueError):
        raise UnusableFileError(OUTSIDE) from None
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(data, final=is_whole)
    except UnicodeDecodeError:
        raise UnusableFileError(NOT_UTF_8) from None
    return (text if is_whole else whole_words_before_cut(text)).replace("\r\n", "\n")


def _split(text: str) -> tuple[Mapping[str, Any] | None, str]:
    """Return the fields of a text's front matter, None if it has none, and the text behind it."""
    first, *lines = text.split("\n")
    if first.rstrip() != _MARK:
        return None, text
    end = next((number for number, line in enumerate(lines) if line.rstrip() == _MARK), None)
    if end is None:
        return None, text
    return _fields("\n".join(lines[:end])), "\n".join(lines[end + 1 :])


def _fields(front: str) -> Mapping[str, Any]:
    """Return the fields, all of them text; where they are no YAML, each line `name: text` alone.

    Other programs accept descriptions with a colon and hints such as `[a] [b]`, which YAML does not.
    """
    yaml: Any = import_module("yaml")  # here, because most sessions have no such files
    try:
        found = yaml.load(front, getattr(yaml, "CBaseLoader", yaml.BaseLoader))
    except (yaml.YAMLError, ValueError, RecursionError):
        found = {match[1]: match[2].strip("\"'") for match in map(_LINE.fullmatch, front.split("\n")) if match}
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def _word(value: object) -> str:
    """Return a field as one line; "" if it is no text."""
    return legible_line(" ".join(value.split())) if isinstance(value, str) else ""


def _is(fields: Mapping[str, Any], name: str, words: frozenset[str]) -> bool:
    return _word(fields.get(name)).casefold() in words


def _hint(value: object) -> str:
    """Return the arguments in words. YAML reads the usual `[name]` as a list."""
    items = cast("list[object]", value)[:10] if isinstance(value, list) else []
    return cut_line(" ".join(f"[{_word(each)}]" for each in items) or _word(cast("object", value)), _HINT_CHARS)


def skills_within(skills: Sequence[PromptFile], limit: int) -> Iterator[PromptFile]:
    """Yield the first skills for models whose names and descriptions have at most `limit` characters together."""
    for skill in skills:
        if skill.for_models:
            limit -= len(skill.name) + len(skill.description)
            if limit < 0:
                return
            yield skill
