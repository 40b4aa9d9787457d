"""Which rights statements had when they ran, and whether they may run again with others: a fold over the active path.

A rebuild runs statements again and loads the values that they left, which runs their code too. Code that was refused
something must not get it that way: a statement runs again with more rights only if the user has agreed. `DomainEntered`
says which rights hold from there on; the answer to its question says whether the statements before it may run with
them. An imported log may say anything, so its statements count as having had the least rights. Statements from before
the first `DomainEntered` had the user's own rights, so they may run again with any.

Pure. Used by rebuilds and by the sandbox of a session (`session.confinement`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from msgspec import Struct

from ..core.domain import Layer, is_inside
from ..core.ids import ToolCallId
from .events import Event
from .events.session import DomainEntered, PermissionAnswered, PermissionOutcome
from .facts import SessionFacts


class Rights(Struct, frozen=True):
    """What statements may do outside without asking. If they are not `held`, they have the user's own rights.

    `writable` are absolute paths, without the scratch directory that each session has. `bare` statements can change the
    metadata of any file. `lacks` are parts of the sandbox that the kernel did not have; None stands for any parts, for
    imported statements and for logs that do not record it.
    """

    held: bool = True
    writable: tuple[str, ...] = ()
    network: bool = False
    bare: bool = False
    lacks: tuple[Layer, ...] | None = None

    def within(self, other: Rights) -> bool:
        """Return whether `other` allows everything that these allow."""
        if not other.held:
            return True
        places = all(is_inside(path, other.writable) for path in self.writable)
        parts = other.lacks is None or set(self.lacks or ()) <= set(other.lacks)
        return self.held and places and parts and self.network <= other.network and self.bare <= other.bare


UNHELD: Final = Rights(held=False)
"""The user's own."""
LEAST: Final = Rights()
"""The rights of the modes `ask` and `plan`, without a network."""
_DECIDED: Final = ("allowed", "rejected")


class Domains:
    """The rights along the active path. `facts` follows the same log. `apply` is for the log alone."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((DomainEntered, PermissionAnswered))

    def __init__(self, facts: SessionFacts) -> None:
        self._facts = facts
        self.reset()

    def reset(self) -> None:
        """Start over; for the log alone, when another path becomes active."""
        self._entered: list[DomainEntered] = []
        self._answers: dict[ToolCallId, PermissionAnswered] = {}

    def apply(self, event: Event) -> None:
        match event:
            case DomainEntered():
                self._entered.append(event)
            case PermissionAnswered(tool_call_id=call) if self._entered and call == self._entered[-1].call:
                self._answers[call] = event
            case _:
                pass

    @property
    def latest(self) -> DomainEntered | None:
        """The sandbox that was entered last in this session, not in an imported log; None before the first."""
        here = bool(self._entered) and self._entered[-1].seq > self._facts.imported_at
        return self._entered[-1] if here else None

    @property
    def asks(self) -> bool:
        """Whether a question is open: may earlier statements run again with the rights that were entered last?"""
        latest = self.latest
        return latest is not None and bool(latest.statements) and self._answer_to(latest) not in _DECIDED

    def _answer_to(self, entered: DomainEntered) -> PermissionOutcome | None:
        """Return the user's answer in this session. One in an imported log may name any question, also a later one."""
        answer = self._answers.get(entered.call)
        return None if answer is None or answer.seq <= self._facts.imported_at else answer.outcome

    def allows(self, seq: int, rights: Rights) -> bool:
        """Return whether what ran at that position may run again with these rights."""
        return any(map(rights.within, self.given_to(seq)))

    def ran_with(self, seq: int) -> Rights | None:
        """Return the rights that the event at that position of the path had when it ran; None if it was imported."""
        return None if seq <= self._facts.imported_at else next(self.given_to(seq))

    def given_to(self, seq: int) -> Iterator[Rights]:
        """Yield the rights given to what ran at that position of the path: at its time, and by the user since."""
        imported = self._facts.imported_at
        before = [event for event in self._entered if imported < event.seq < seq]
        if seq <= imported:
            yield LEAST
        else:
            yield rights_of(before[-1]) if before else UNHELD
        for event in self._entered:
            if event.seq > max(seq, imported) and self._answer_to(event) == "allowed":
                yield rights_of(event)


def rights_of(event: DomainEntered) -> Rights:
    """Return the rights that the event records."""
    return Rights(held=event.held, writable=event.writable, network=event.network, bare=event.bare, lacks=event.lacks)
