"""With which rights the statements of a path have run, and whether they may run again with others: a fold.

A rebuild runs statements again and loads what they left, which runs their code too. What was refused to a statement
then must not be done by that: with more rights than it had, it runs again only where the user has agreed.
`DomainEntered` says from where on which rights held, and the answer to its question whether all that came before may
run with them. A log that was imported may say anything; to what it has run nothing was allowed here. Statements from
before a first `DomainEntered` had the user's own rights, so they may run again with any. Pure. Used by `replay`,
`session.confining`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from msgspec import Struct

from ...core.domain import Layer
from ...core.ids import ToolCallId
from ...core.paths import is_inside
from ..events import Event
from ..events.session import DomainEntered, PermissionAnswered, PermissionOutcome
from .provenance import Provenance


class Rights(Struct, frozen=True):
    """What statements may do outside beside what they ask for: nothing is in their way, or where they may write.

    `writable` are absolute, without the scratch directory, which every session has of its own. `bare`: metadata of
    files is not held, wherever they are. It `lacks` these parts of the layers; None: whatever a kernel lacks, which is
    what there is to say of statements of others and of logs that do not say it.
    """

    held: bool = True
    writable: tuple[str, ...] = ()
    network: bool = False
    bare: bool = False
    lacks: tuple[Layer, ...] | None = None

    def within(self, other: Rights) -> bool:
        """Whether they allow nothing that `other` does not allow."""
        if not other.held:
            return True
        places = all(is_inside(path, other.writable) for path in self.writable)
        parts = other.lacks is None or set(self.lacks or ()) <= set(other.lacks)
        return self.held and places and parts and self.network <= other.network and self.bare <= other.bare


UNHELD: Final = Rights(held=False)
"""The user's own."""
LEAST: Final = Rights()
"""Those of the modes `ask` and `plan`, without a network."""
_DECIDED: Final = ("allowed", "rejected")


class Domains:
    """The rights along the active path. `provenance` follows the same log. `apply` is for the log alone."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((DomainEntered, PermissionAnswered))

    def __init__(self, provenance: Provenance) -> None:
        self._provenance = provenance
        self.reset()

    def reset(self) -> None:
        """For the log alone: another path follows, from its first event on."""
        self._entered: list[DomainEntered] = []
        self._answers: dict[ToolCallId, PermissionOutcome] = {}

    def apply(self, event: Event) -> None:
        match event:
            case DomainEntered():
                self._entered.append(event)
            case PermissionAnswered(tool_call_id=call, outcome=outcome) if self._entered:
                if call == self._entered[-1].call:
                    self._answers[call] = outcome
            case _:
                pass

    @property
    def latest(self) -> DomainEntered | None:
        """What was entered last, here; None where nothing was yet."""
        here = bool(self._entered) and self._entered[-1].seq > self._provenance.imported_at
        return self._entered[-1] if here else None

    @property
    def asks(self) -> bool:
        """Whether a question is open: what was entered last has more rights than statements had, and nobody has said
        whether these may run again with them."""
        latest = self.latest
        return latest is not None and bool(latest.statements) and self._answers.get(latest.call) not in _DECIDED

    def allows(self, seq: int, rights: Rights) -> bool:
        """Whether what ran at that position may run again with these rights."""
        return any(map(rights.within, self.given_to(seq)))

    def ran_with(self, seq: int) -> Rights | None:
        """The rights that what is at that position of the path had when it ran; None where it was imported."""
        return None if seq <= self._provenance.imported_at else next(self.given_to(seq))

    def given_to(self, seq: int) -> Iterator[Rights]:
        """The rights that were given to what ran at that position of the path: when it ran, and by the user since."""
        imported = self._provenance.imported_at
        before = [event for event in self._entered if imported < event.seq < seq]
        if seq <= imported:
            yield LEAST
        else:
            yield rights_of(before[-1]) if before else UNHELD
        for event in self._entered:
            if event.seq > max(seq, imported) and self._answers.get(event.call) == "allowed":
                yield rights_of(event)


def rights_of(event: DomainEntered) -> Rights:
    """What the event says was entered."""
    return Rights(held=event.held, writable=event.writable, network=event.network, bare=event.bare, lacks=event.lacks)
