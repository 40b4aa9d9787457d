"""Sentences about the rights of statements: what they may do, and what asks first.

Pure. Used by the feed, and by everything that shows the log or a question to a person.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from ...core.domain import abilities
from ...core.text import plural, visible
from ...log.events.session import DomainEntered
from ...log.permissions import RebuildSubject
from ...log.rights import Rights

_SHOWN: Final = 50
"""Number of statements that a question lists."""
_BEFORE: Final = 3
"""Number of different rights that a sentence about earlier runs lists."""
_IN_ASK: Final = (
    "Other file changes by Python code, and all commands, need permission in mode ask and are "
    "refused in mode plan. Databases, C code and started programs cannot write elsewhere."
)
_BARE: Final = (
    " This system does not offer the layer `mounts`, so nothing hides Rewindow's stored keys and the state of other"
    " sessions from statements. In mode auto, their own code and commands cannot write in directories that contain a"
    " git repository or other files that programs run; bash(command, outside=True) asks the user. `rewindow doctor`"
    " tells how to get the layer."
)
_IN_AUTO: Final = (
    "Commands run in the sandbox too; bash(command, outside=True) asks the user to run a command outside. Calls of MCP"
    " servers ask the user, because servers run outside."
)


def rights_phrase(rights: DomainEntered | RebuildSubject | Rights) -> str:
    """Describe what statements may do without asking, to follow "statements run"."""
    if not rights.held:
        return "with your permissions"
    places = ["their scratch directory", *map(visible, rights.writable)]
    network = "with TCP" if rights.network else "without a network"
    beyond = list(_open(rights))
    can = f", and can {_joined(beyond)}" if beyond else ""
    return f"in a sandbox, {network}, and their own code writes only in {_joined(places)}{can}"


def before_phrase(given: Collection[Rights | None]) -> str:
    """Describe the rights of earlier runs, to follow "they ran".

    None means imported.
    """
    held = [rights_phrase(rights) for rights in given if rights is not None]
    imported = ["elsewhere (they were imported, and had no permissions here)"] if None in given else []
    return "; or ".join([*dict.fromkeys(held), *imported][:_BEFORE])


def entered_sentence(entered: DomainEntered) -> str:
    """Describe a sandbox, what needs a question, and what a missing layer means, in a few sentences."""
    if not entered.held:
        return (
            f"There is no sandbox here: {entered.reason}. Statements run with your permissions, so mode ask asks you "
            "before each model statement."
        )
    missing = _BARE if entered.bare else ""
    return f"Statements run {rights_phrase(entered)}. {_IN_AUTO if entered.writable else _IN_ASK}{missing}"


def entered_line(entered: DomainEntered) -> str:
    """Describe a sandbox in a few words; `/sandbox` tells the rest."""
    if not entered.held:
        return "no sandbox: statements run with your permissions (/sandbox)"
    places = _joined(["scratch files", *map(_place, entered.writable)])
    network = ", with TCP" if entered.network else ""
    rest = "" if entered.writable else "; other changes ask you"
    missing = "; keys and git are not protected, because the layer mounts is missing" if entered.bare else ""
    return f"sandboxed: only {places} are writable{network}{rest}{missing} (/sandbox)"


def _place(path: str) -> str:
    return visible(path).rstrip("/").rpartition("/")[2] + "/"


def rebuild_sentence(subject: RebuildSubject) -> str:
    """Write the question about statements that had fewer rights than now."""
    count = len(subject.statements)
    shown = ", ".join(map(str, subject.statements[:_SHOWN])) + (", ..." if count > _SHOWN else "")
    which = f"{plural(count, 'Statement')} {shown}"
    before = f" Before, they ran {subject.before}." if subject.before else ""
    return (
        f"{which} ran with fewer permissions than statements have now: they run "
        f"{rights_phrase(subject)}.{before} To restore their names, they must run again with more "
        "permissions. Otherwise these names are lost."
    )


def gained_sentence(rights: Rights, before: str) -> str:
    """Explain that a statement ran with fewer rights, `before`, than statements have now."""
    now = rights_phrase(rights)
    return (
        f"Statements have more permissions now than when this one ran. Now they run {now}. Before, they ran {before}."
    )


def _open(rights: DomainEntered | RebuildSubject | Rights) -> Iterator[str]:
    if rights.bare:
        yield "read stored keys and the state of other sessions"
        yield "change modes, owners and times of files elsewhere"
    yield from abilities(rights.lacks or (), bare=rights.bare)


def _joined(places: Sequence[str]) -> str:
    *others, last = places
    return f"{', '.join(others)} and {last}" if others else last
