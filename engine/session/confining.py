"""Which domain the worker of a session is to be in, and what becomes of statements that ran with fewer rights.

Statements that a model or a client writes are held; what the user types has the user's own rights, as long as nobody
else has written in the session. `ask` and `plan` allow a scratch directory alone, because all else is asked for; `auto`
also allows the session's directories, but for what would make git run a program later. A domain is never loosened, so
other rights take a fresh worker; and what was refused to a statement must not be done by running it again there. So
where there are statements with fewer rights the user is asked, and without a yes the names that they bound are lost.
Must not know how a domain is held, nor start a worker. Used by `live_environment`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

import anyio

from ..context.tail.rights import before_phrase
from ..core.domain import LAYERS, PARTS, Domain, Layer, is_held, is_inside, lacking
from ..core.errors import EnvironmentUnavailableError
from ..files.protected import Mark, Protection
from ..files.safe_open import ways_in
from ..log.events.session import DomainEntered, Mode
from ..log.permissions import RebuildSubject
from ..log.rebuild_plan import History
from ..log.rights import UNHELD, Domains, Rights, rights_of
from ..runtime.environment import Environment
from .directories import Scratch
from .parts import SessionParts
from .questions import Questions

SWITCHED_OFF: Final = "the setting sandbox is off"


def domain_of(
    mode: Mode, *, network: bool, roots: Sequence[str], scratch: str, state: str, kept: Sequence[str]
) -> Domain:
    """What statements of a session may change by themselves.

    Args:
        mode: of the session.
        network: whether they may use TCP.
        roots: the absolute directories of the session.
        scratch: its directory for files that nobody misses.
        state: where sessions are kept.
        kept: what other programs run by themselves in the directories.
    """
    # A link cannot be held by the kernel, and what takes its place would be this program's own from the next start on.
    writable = tuple(map(str, roots)) if mode == "auto" and not ways_in(tuple(roots)) else ()
    # What is covered is gone with all that is below it, so a session in there would have no directory.
    is_around = any(is_inside(root, (state,)) for root in roots)
    return Domain(
        scratch=scratch,
        writable=writable,
        read_only=tuple(kept) if writable else (),
        hidden=() if is_around else (state,),
        network=network,
    )


def rights_in(domain: Domain, layers: Collection[Layer]) -> Rights:
    """What a log says of a domain that is held by these layers."""
    return Rights(
        writable=domain.writable,
        network=domain.network,
        bare="mounts" not in layers,
        lacks=tuple(part for part in PARTS if part not in layers),
    )


class Confinement:
    """That of one session.

    Args:
        parts: the session's. Its setting `sandbox` is the rule: `auto` sandboxes statements where the kernel can,
            `required` runs none where it cannot, `off` sandboxes none; None neither, and no text mentions it.
        questions: asks the user.
        roots: the absolute directories of the session.
        protection: what is protected in these, for the host as for statements.
        scratch: its scratch directory.
        by_model: whether the session's model writes statements, and does not only pass on what the user types.
        dismissed: gives up the turn that is under way.
    """

    def __init__(
        self,
        parts: SessionParts,
        *,
        questions: Questions,
        roots: Sequence[str],
        protection: Protection,
        scratch: Scratch,
        by_model: bool,
        dismissed: Callable[[], None],
    ) -> None:
        domains = Domains(parts.facts)
        parts.log.follow_path(domains, Domains.FOLLOWS)
        self._log = parts.log
        self._policy = parts.policy
        self._facts = parts.facts
        self._domains = domains
        self._questions = questions
        self._rule = parts.settings.sandbox
        self._roots = tuple(roots)
        self._protection = protection
        self._scratch = scratch
        self._state = str(parts.settings.state_dir)
        self._by_model = by_model
        self._dismissed = dismissed
        self._rights = UNHELD
        self._kept_marks: Mapping[str, Mark | None] = {}
        """What the places of each domain were made of."""
        self._marks: Mapping[str, Mark | None] | None = None
        """The same for what the kernel holds now; None where statements may write none of it anyway."""
        self._late: list[str] = []
        """What appeared between two statements."""

    @property
    def is_foreign(self) -> bool:
        """Whether others than the user write statements in the session, or have done so."""
        return self._by_model or self._facts.is_foreign

    @property
    def _holds(self) -> bool:
        return self.is_foreign and self._rule in ("auto", "required")

    def wanted(self) -> Domain | None:
        """The domain that the next statement is to run in; None for the user's own rights."""
        if not self._holds:
            return None
        return domain_of(
            self._policy.mode,
            network=self._policy.option("network") == "on",
            roots=self._roots,
            scratch=self._scratch.path,
            state=self._state,
            kept=self._kept,
        )

    @cached_property
    def _kept(self) -> tuple[str, ...]:
        # Once, because with other places the domain is another one, and takes a fresh worker. `hold` adds new ones.
        places = self._protection.places()
        self._kept_marks = self._protection.marks()
        return places

    @property
    def distrusted(self) -> tuple[str, ...]:
        """Where statements that were held may have left programs, links resolved; none of the user's is named there."""
        if not self._holds:
            return ()
        return tuple(map(os.path.realpath, (self._scratch.path, *self._facts.writable)))

    def prepare(self, domain: Domain) -> None:
        """Makes what a fresh worker of that domain needs: the scratch directory. Raises EnvironmentUnavailableError."""
        self._marks = self._kept_marks if domain.writable else None
        try:
            self._scratch.make()
        except OSError as error:
            raise EnvironmentUnavailableError(f"there is no scratch directory for statements: {error}") from None

    async def hold(self, environment: Environment) -> None:
        """Has the kernel hold what is protected and was made or replaced since it was last held, by whomever.

        Raises EnvironmentUnavailableError.
        """
        if self._marks is None or self._marks == (marks := self._protection.marks()):
            return
        self._late += self._protection.appeared(self._marks)
        await environment.hold(await anyio.to_thread.run_sync(self._protection.places))
        self._marks = marks

    @property
    def is_holding(self) -> bool:
        """Whether all that is protected is as it was when the kernel last held it."""
        return self._marks is None or self._marks == self._protection.marks()

    def appeared(self) -> Iterator[str]:
        """Files that other programs run, which were not there when the kernel last held them: a program of a statement
        may have made them, because what is not there cannot be mounted."""
        late, self._late = self._late, []
        yield from late
        if self._marks is not None:
            yield from self._protection.appeared(self._marks)

    async def enter(self, domain: Domain | None, layers: Collection[Layer], history: History) -> None:
        """A worker is in that domain, held by these layers: records it where it is news, and asks where it has to.

        `history` is what a rebuild would go through.

        Raises:
            EnvironmentUnavailableError: it is not held and has to be, or the question was dismissed.
        """
        is_in = domain is not None and is_held(layers, domain)
        if domain is not None and not is_in and self._rule == "required":
            raise EnvironmentUnavailableError(f"statements have to be held here, and cannot be: {_why(layers, domain)}")
        self._rights = rights_in(domain, layers) if is_in and domain is not None else UNHELD
        if self._is_news(domain):
            self._record(domain, layers, history)
        if self._domains.asks:
            await self._ask(history)

    def allows(self, seq: int) -> bool:
        """Whether what ran at that position may run again with the rights that were entered."""
        return self._domains.allows(seq, self._rights)

    def may_write(self, place: str) -> bool:
        """Whether the rights that were entered let statements write at that real place by themselves."""
        if not self._rights.held:
            return True
        mounted = () if self._rights.bare else self._kept
        return is_inside(place, self._rights.writable) and not is_inside(place, mounted)

    def given_to(self, seq: int) -> tuple[Rights, ...]:
        """The rights of what ran at that position of the path that is active now."""
        return tuple(self._domains.given_to(seq))

    def ran_with(self, seq: int) -> str:
        """The rights that what is at that position had when it ran, as the end of "they ran"."""
        return before_phrase([self._domains.ran_with(seq)])

    def beyond(self, given: Iterable[Rights]) -> Rights | None:
        """The rights that were entered, if they allow anything that none of these does."""
        return None if any(map(self._rights.within, given)) else self._rights

    def may_allow(self, seq: int) -> bool:
        """The same with those of the domain that is wanted now, as far as that is known before there is a worker."""
        wanted = self.wanted()
        return self._domains.allows(seq, UNHELD if wanted is None else rights_in(wanted, (*LAYERS, *PARTS)))

    def _is_news(self, domain: Domain | None) -> bool:
        latest = self._domains.latest
        if latest is None:
            is_said = self._rule is not None and self.is_foreign
            return domain is not None or is_said or self._facts.imported_at >= 0
        return rights_of(latest) != self._rights

    def _record(self, domain: Domain | None, layers: Collection[Layer], history: History) -> None:
        rights = self._rights
        reason = "" if rights.held else SWITCHED_OFF if domain is None else _why(layers, domain)
        event = DomainEntered(
            held=rights.held,
            writable=rights.writable,
            network=rights.network,
            bare=rights.bare,
            lacks=rights.lacks,
            reason=reason,
            statements=len(history.beyond(self.allows)),
        )
        self._log.append(event)

    async def _ask(self, history: History) -> None:
        """Has the user decide about what was entered last; the answer is on the log, where `domains` finds it."""
        entered = self._domains.latest
        assert entered is not None
        beyond = history.beyond(self.allows)
        subject = RebuildSubject(
            statements=tuple(beyond.values()),
            held=entered.held,
            writable=entered.writable,
            network=entered.network,
            bare=entered.bare,
            lacks=entered.lacks,
            before=before_phrase([self._domains.ran_with(seq) for seq in beyond]),
        )
        verdict = await self._questions.decide(entered.call, subject)
        if verdict.outcome == "cancelled":
            self._dismissed()
            raise EnvironmentUnavailableError(
                "whether earlier statements may run again with more rights is not decided"
            )


def _why(layers: Collection[Layer], domain: Domain) -> str:
    missing = lacking(layers, domain)
    where = "" if lacking(layers) == missing else ", and the state directory is in what statements may write"
    return f"this system does not offer {' and '.join(missing)}{where}"
