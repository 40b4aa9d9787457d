"""Which names of a session are handles, which are somebody's variables, and which views stand on which paths: a fold.

What a client may call a handle is decided here. Follows a session's events; asks nobody, so that a call which cannot be
is refused without the worker.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import hashlib
import keyword
import re
import unicodedata
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, Literal

from engine import INJECTED, StatementId, cut_line, legible_line, original
from engine.log.events import Event
from engine.log.events.execution import ExecutionFinished, StatementRecorded
from engine.log.events.session import EnvironmentRestored
from mcp_tools.arguments import ArgumentError

Kind = Literal["view", "group"]
_KINDS: Final[Mapping[str, Kind]] = {"ViewHandle": "view", "GroupHandle": "group"}
"""By the name of the type, as a namespace diff has it."""
_NEEDED: Final[Mapping[Kind, str]] = {"view": "path", "group": "add"}
"""The argument by which a tool opens one."""
_FOLLOWED: Final = frozenset((StatementRecorded, ExecutionFinished, EnvironmentRestored))
MOST_HANDLES: Final = 256
"""Of one session."""
LONGEST_NAME: Final = 64
_DIGEST_BYTES: Final = 4
_SHOWN_CHARS: Final = 60
_SHOWN_NAMES: Final = 20
_CHAR: Final = (
    r"""[^'"\\\0\r\n\ud800-\udfff]|\\(?:[\\'"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U00(?:0[0-9a-f]|10)[0-9a-f]{4})"""
)
_OPENING: Final = re.compile(
    rf"""(\w+) = (?:view|{re.escape(original("view"))})\(('(?:{_CHAR}|")*'|"(?:{_CHAR}|')*")[,)]"""
)
"""How `statements.opening` begins, with no escape but those that `repr` writes: other sources, whose literals may be
none that Python takes, begin likewise."""


class Handles:
    """The handles of one session by name, in the order in which the names were bound."""

    def __init__(self) -> None:
        self._kinds: dict[str, Kind] = {}
        self._variables: set[str] = set()
        self._paths: dict[str, str] = {}
        self._asked: dict[str, str] = {}
        """What a client first called each handle, as far as this process was asked."""
        self._opening: dict[StatementId, tuple[str, str]] = {}
        """The names and paths of views that statements under way would open."""

    def apply(self, event: Event) -> None:
        if type(event) in _FOLLOWED:
            self._follow(event)

    def _follow(self, event: Event) -> None:
        match event:
            case StatementRecorded(statement_id=statement_id, source=source):
                found = _OPENING.match(source)
                if found is not None:
                    self._opening[statement_id] = (found[1], ast.literal_eval(found[2]))
            case ExecutionFinished() if event.counts:
                self._finish(event)
            case EnvironmentRestored(absent=absent):
                self._unbind(absent)
            case _:
                pass

    def _finish(self, event: ExecutionFinished) -> None:
        diff, opened = event.diff, self._opening.pop(event.statement_id, None)
        self._unbind(diff.deleted)
        for name, bound in (*diff.added.items(), *((name, change.after) for name, change in diff.changed.items())):
            kind = _KINDS.get(bound.type_name)
            if kind is None:
                self._unbind([name])
                self._variables.add(name)
            else:
                self._variables.discard(name)
                self._kinds[name] = kind
        if opened is not None and event.status == "ok":
            self._paths[opened[0]] = opened[1]

    def _unbind(self, names: Iterable[str]) -> None:
        for name in names:
            self._kinds.pop(name, None)
            self._paths.pop(name, None)
            self._asked.pop(name, None)
            self._variables.discard(name)

    # --- what there is ------------------------------------------------------------------------------------------------

    def kind(self, name: str) -> Kind | None:
        """What the handle of that name is; None where none has it."""
        return self._kinds.get(name)

    def names(self, kind: Kind | None = None) -> list[str]:
        """Of all handles, or those of a kind."""
        return [name for name, each in self._kinds.items() if kind in (None, each)]

    def meant(self, name: str) -> str | None:
        """The identifier of the handle that a client calls so; None where there is none."""
        if name in self._kinds:
            return name
        with suppress(ArgumentError):
            if (found := identifier(name)) in self._kinds:
                return found
        return None

    def called(self, name: str) -> str | None:
        """The identifier of the handle that has exactly this name, or was first called so; None where none was."""
        if name in self._kinds:
            return name
        return next((handle for handle, asked in self._asked.items() if asked == name), None)

    def known(self, name: str, kind: Kind) -> str:
        """The name, if a handle of that kind has it. Raises ArgumentError, which says what there is."""
        asked, name = name, self.meant(name) or name
        if self._kinds.get(name) == kind:
            return name
        shown, other = cut_line(legible_line(asked), _SHOWN_CHARS), self._kinds.get(name)
        if other is not None:
            raise ArgumentError(f"{shown} is a {other}; use the tool `{other}` for it.")
        if name in self._variables:
            raise ArgumentError(f"{shown} is a variable of this session, no {kind}.")
        raise ArgumentError(
            f"There is no {kind} {shown}; {_listed(self.names(kind), kind)}.{_close(shown, self._kinds)}"
        )

    def to_bind(self, name: str, kind: Kind) -> str:
        """The identifier of a name, if a handle of that kind may get it.

        Raises:
            ArgumentError: it can be none, or is something else, or there are too many handles.
        """
        asked, name = name, identifier(name)
        self.check_same(asked, name)
        other = self._kinds.get(name)
        if other not in (None, kind):
            raise ArgumentError(f"{name} is a {other} already; choose another name, or close it first.")
        if name in self._variables:
            raise ArgumentError(f"{name} is a variable of this session; choose another name.")
        if other is None and len(self._kinds) >= MOST_HANDLES:
            raise ArgumentError(f"This session has {MOST_HANDLES} handles, the most there can be; close some first.")
        return name

    def check_same(self, asked: str, name: str) -> None:
        """Check that a client which is about to change the handle `name` means it, and not one it called otherwise.

        Raises ArgumentError where another name of the client's has become the same identifier.
        """
        first = self._asked.get(name, asked)
        if name in self._kinds and asked not in (name, first):
            shown, other = (cut_line(legible_line(each), _SHOWN_CHARS) for each in (asked, first))
            meant = name if first == name else f"{other}, which is {name}"
            raise ArgumentError(f"{shown} would be the same handle as {meant}; call it {name}, or choose another name.")

    def note_asked(self, name: str, asked: str) -> None:
        """Note what a client calls a handle; the first name counts."""
        if name in self._kinds:
            self._asked.setdefault(name, asked)

    def for_path(self, path: str) -> str:
        """A name for a view of the path: the one that stands on it already, or a free one made of the path's."""
        for name, opened in self._paths.items():
            if opened == path and self._kinds.get(name) == "view":
                return name
        stem = (
            re.sub(r"\W+", "_", path.rstrip("/").rpartition("/")[2].partition(".")[0], flags=re.ASCII)
            .strip("_")
            .lower()
        )
        base = stem or "file"
        base = f"file_{base}" if not base.isidentifier() or _is_taken(base) else base
        base = base[: LONGEST_NAME - len(f"_{MOST_HANDLES}")]
        name, number = base, 2
        while name in self._kinds or name in self._variables:
            name, number = f"{base}_{number}", number + 1
        return self.to_bind(name, "view")


def identifier(name: str) -> str:
    """What a name is in statements, whose rules are Python's; names that differ in punctuation alone are the same.

    Of a long name the beginning is left, and a digest of all of it, because long paths begin alike. Raises
    ArgumentError where nothing in it can be one.
    """
    word = folded(name)
    word = (word if name.isidentifier() and name.isascii() else word.strip("_")).lstrip("_")
    if not word:
        shown = cut_line(repr(name), _SHOWN_CHARS)
        raise ArgumentError(f"{shown} cannot be a name, because it holds no letter or digit; take one such as `notes`.")
    if word[0].isdigit():
        word = f"n{word}"
    if len(word) > LONGEST_NAME:
        digest = hashlib.blake2s(word.encode(), digest_size=_DIGEST_BYTES).hexdigest()
        return f"{word[: LONGEST_NAME - len(digest) - 1]}_{digest}"
    return f"{word}_"[:LONGEST_NAME] if _is_taken(word) else word


def folded(text: str) -> str:
    """The letters and digits of a text that a name keeps, with an underscore for what is between them."""
    return re.sub(r"[^A-Za-z0-9]+", "_", unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode())


def _is_taken(name: str) -> bool:
    """Whether it is a word of Python's, or a name that every session has."""
    return keyword.iskeyword(name) or keyword.issoftkeyword(name) or name in INJECTED or hasattr(builtins, name)


def _listed(names: list[str], kind: Kind) -> str:
    if not names:
        return f"none is open, `{kind}` with `{_NEEDED[kind]}` opens one"
    rest = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return f"open are {', '.join(names[:_SHOWN_NAMES])}{rest}"


def _close(name: str, names: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, names, 1)
    return f" Did you mean {found[0]}?" if found else ""
