"""The instructions that a project and its user have for agents (`AGENTS.md` and others): which files, and their text.

Each directory has one such file: the first of `NAMES`. Those of the user's configuration directory, the project's root
and each directory down to the session's come into the prompt; one further down counts once a path beside it is used.
The nearest to a path has the last word, so it comes last. The texts are words of their authors: they grant no
permission. Reads files; must not know where the texts go. Called by `session.guidance`.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import PurePath
from typing import Final

from ..core.domain import is_inside
from ..core.encodings import decode
from ..core.text import cut_line, legible_line, more, whole_words_before_cut
from ..log.events.session import GuidanceFile
from .project import project_root
from .safe_open import opened_file, user_roots

NAMES: Final = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", ".goosehints")
"""In one directory the first of these counts (https://agents.md, and what other agents read)."""
FILE_CHARS: Final = 16_000
"""Characters of one file in a prompt, about 4,000 tokens. A longer file is cut to its beginning and later headings."""
TOTAL_CHARS: Final = 40_000
"""Characters of all files together. The files nearest to the session's directory get theirs first."""
LEFT_OUT: Final = "(omitted, because these files together are too long; view this one to read it)"
NOT_READ: Final = " (not read: not a text file of the project)"
_MOST_BYTES: Final = 1 << 20
"""Bytes that are read of one file."""
_MOST_FILES: Final = 20
"""Number of files that one file may import, directly or through others."""
_MOST_DEPTH: Final = 5
_MOST_DIRECTORIES: Final = 64
"""Number of directories between the root and the session's directory that are searched."""
_OUTLINE_CHARS: Final = 2_000
_IMPORT: Final = re.compile(r"[ \t]*(?:[-*][ \t]+)?@(\S+)[ \t]*")
"""A line that imports a file."""
_FENCE: Final = re.compile(r"[ \t]*(```|~~~)")
_HEADING: Final = re.compile(r"#{1,4}[ \t]+\S")


def guidance_files(directory: str, config: str, limit: int = TOTAL_CHARS) -> tuple[GuidanceFile, ...]:
    """Return the files for a session, the most general first. Blocks.

    Args:
        directory: the session's directory, absolute.
        config: the user's configuration directory, absolute.
        limit: characters of all texts together; never more than `TOTAL_CHARS`.
    """
    root = project_root(directory)
    below = PurePath(directory).relative_to(root).parts
    folders = [root, *(os.path.join(root, *below[: count + 1]) for count in range(len(below)))][-_MOST_DIRECTORIES:]
    roots = (os.path.realpath(root),)
    found = [_guidance_in(config, user_roots(config)), *(_guidance_in(folder, roots) for folder in folders)]
    texts: dict[str, GuidanceFile] = {}
    room = min(limit, TOTAL_CHARS)
    for each in reversed([each for each in found if each is not None]):
        if each.text not in texts:
            most = min(room, FILE_CHARS)
            is_shown = most >= min(len(each.text), _OUTLINE_CHARS)
            shown = _cut(each.text, most) if is_shown else LEFT_OUT
            room -= len(shown) if is_shown else 0
            texts[each.text] = GuidanceFile(each.path, shown)
    return tuple(reversed(texts.values()))


def guidance_near(paths: Iterable[str], directory: str) -> Iterator[GuidanceFile]:
    """Yield the files between a session's directory and paths in it: those that come with their use.

    Each directory is read once, for a path the outermost first.

    Args:
        paths: absolute, links resolved.
        directory: the session's directory, absolute.
    """
    roots, seen = (os.path.realpath(project_root(directory)),), {directory}
    for parent in dict.fromkeys(map(os.path.dirname, paths)):
        folders = [str(each) for each in (PurePath(parent), *PurePath(parent).parents)]
        for folder in reversed([each for each in folders if each not in seen and is_inside(each, (directory,))]):
            seen.add(folder)
            found = _guidance_in(folder, roots)
            if found is not None:
                yield GuidanceFile(found.path, _cut(found.text, FILE_CHARS))


def _guidance_in(folder: str, roots: tuple[str, ...]) -> GuidanceFile | None:
    """Return the file of a directory. All that it has and imports is in the roots, links resolved."""
    for name in NAMES:
        path = os.path.join(folder, name)
        if not os.path.lexists(path):
            continue
        text = _read(path, roots)
        if text is not None and text.strip():
            lines = _with_imports(path, text, roots, {os.path.realpath(path)}, 0)
            return GuidanceFile(path, "\n".join(lines).strip())
        return None
    return None


def _read(path: str, roots: tuple[str, ...]) -> str | None:
    """Return the text of a file in the roots; None if it is elsewhere, binary, or cannot be read."""
    try:
        with opened_file(path, roots) as file:
            data = file.read(_MOST_BYTES)
    except (OSError, ValueError):
        return None
    is_cut = len(data) == _MOST_BYTES
    found = decode(_whole(data) if is_cut else data)
    if found is None:
        return None
    text = whole_words_before_cut(found.text) if is_cut else found.text
    return "\n".join(map(legible_line, text.splitlines()))


def _whole(data: bytes) -> bytes:
    """Return the bytes of a cut file without the beginning of a character of UTF-8 at the end."""
    with suppress(UnicodeDecodeError):
        return data[: codecs.utf_8_decode(data, "strict", False)[1]]
    return data


def _with_imports(path: str, text: str, roots: tuple[str, ...], seen: set[str], depth: int) -> Iterator[str]:
    """Yield the lines, with the files that lines such as `@docs/style.md` import in their place, each file once."""
    fenced = False
    for line in text.split("\n"):
        fenced ^= _FENCE.match(line) is not None
        found = None if fenced else _IMPORT.fullmatch(line)
        other = None if found is None else os.path.realpath(os.path.join(os.path.dirname(path), found[1]))
        if other is None or depth == _MOST_DEPTH or len(seen) > _MOST_FILES or other in seen:
            yield line
            continue
        imported = _read(other, roots)
        if imported is None:
            is_file = "." in os.path.basename(other) or os.path.lexists(other)
            yield f"{line}{NOT_READ}" if is_file else line  # `@alice` names a person
            continue
        seen.add(other)
        yield from _with_imports(other, imported, roots, seen, depth + 1)


# --- long texts -------------------------------------------------------------------------------------------------------


def _cut(text: str, limit: int) -> str:
    """Return at most about `limit` characters: the beginning, and the headings of the rest with their line numbers."""
    if len(text) <= limit:
        return text
    lines = text.split("\n")
    shown, room = 0, limit - min(_OUTLINE_CHARS, limit // 2)
    while shown < len(lines) and len(lines[shown]) < room:
        room -= len(lines[shown]) + 1
        shown += 1
    beginning = lines[:shown] or [cut_line(lines[0], room)]
    outline: list[str] = []
    room = min(_OUTLINE_CHARS, limit // 2)
    for number, line in enumerate(lines[shown:], shown + 1):
        if _HEADING.match(line) and (room := room - len(line) - len(f"{number}: ") - 1) >= 0:
            outline.append(f"{number}: {line}")
    return "\n".join(
        [
            *beginning,
            more(len(lines) - shown, "line", "in the file, with these headings" if outline else "in the file"),
            *outline,
        ]
    )
