"""Decide the sandbox of a session's worker, and what happens to statements that ran with fewer rights.

Statements of models and clients are sandboxed. The user's own have the user's rights, until someone else writes in the
session. Modes `ask` and `plan` allow a scratch directory only: other changes are tool calls, which ask or are refused.
`auto` also allows the session's directories, except files that other programs would run later.

A sandbox is never loosened, so other rights need a fresh worker. What was refused to a statement must not be done by
running it again there. So if statements ran with fewer rights, the user is asked; without a yes, the names that they
bound are lost. Must not know how a sandbox is enforced, nor start a worker. Used by `live_environment`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeVar

import anyio

from ..context.tail.rights import before_phrase
from ..core.domain import LAYERS, PARTS, Domain, Layer, is_bare, is_held, is_inside, lacking
from ..core.errors import EnvironmentUnavailableError
from ..core.key_file import key_path
from ..core.settings import default_state_dir
from ..files import appearing
from ..files.protected import Appeared, Mark, Protection, is_new
from ..files.safe_open import ways_in
from ..log.events.session import DomainEntered, Mode
from ..log.permissions import RebuildSubject
from ..log.rebuild_plan import History
from ..log.rights import UNHELD, Domains, Rights, rights_of
from ..runtime.environment import Environment
from .directories import Scratch
from .name_guard import MOST, NameGuard
from .parts import SessionParts
from .policy import NETWORK, ON, Questions

T = TypeVar("T")

SWITCHED_OFF: Final = "the setting sandbox is off"
MOST_APPEARED: Final = 100
"""How many new files of a statement are looked at and named."""
SHUT: Final = (
    "{path} is not readable, so Rewindow cannot find files in it that other programs run. Statements "
    "could change such files; {advice}"
)
TOO_LONG: Final = (
    "{path} is too large to find all files in it that other programs run, and statements could "
    "change the rest; remove unneeded files there, or use mode `ask` (limits: 500 such files and 200 "
    "repositories in a directory; 1 MiB of git configuration; for each repository 1,000 values, 200 "
    "included files, 100 files that its commands may name, and 20,000 combinations of a word and a "
    "directory)"
)
_COMMAND: Final = "run: chmod -R u+rX -- {path}"
_WITHOUT_COMMAND: Final = "make this path readable for yourself, or remove it"


def domain_of(
    mode: Mode,
    *,
    network: bool,
    roots: Sequence[str],
    scratch: str,
    state: str,
    protected: Sequence[str],
    own: Sequence[str] = (),
    is_open: bool = False,
) -> Domain:
    """Return what statements of a session may change directly.

    Args:
        mode: of the session.
        network: whether they may use TCP.
        roots: the session's absolute directories.
        scratch: its directory for temporary files.
        state: where sessions are stored.
        protected: files in the directories that other programs run without a question.
        own: other directories of this program: that of the file of keys, which the user's first key makes, and that of
            sessions by default.
        is_open: whether something is in the directories that programs must not change and nothing can protect.
    """
    # The kernel cannot protect a link, and a file that replaces it would be trusted from the next start on.
    is_closed = not is_open and not ways_in(tuple(roots))
    writable = tuple(map(str, roots)) if mode == "auto" and is_closed else ()
    # Hiding a directory would hide a session's directory inside of it.
    hidden = [each for each in dict.fromkeys((state, *own)) if not any(is_inside(root, (each,)) for root in roots)]
    return Domain(
        scratch=scratch,
        writable=writable,
        read_only=tuple(protected) if writable else (),
        hidden=tuple(hidden),
        network=network,
    )


def rights_in(domain: Domain, layers: Collection[Layer]) -> Rights:
    """Return what the log says about a sandbox with these layers."""
    return Rights(
        writable=domain.writable,
        network=domain.network,
        bare=is_bare(layers),
        lacks=tuple(part for part in PARTS if part not in layers),
    )


def shut_text(path: str) -> str:
    """Return the error for a path that the user may not read.

    A statement may have chosen it. So it is part of a command only if it is plain text for a shell, and no link.
    """
    is_plain = shlex.quote(path) == path == os.path.realpath(path)
    advice = _COMMAND.format(path=path) if is_plain else _WITHOUT_COMMAND
    return SHUT.format(path=repr(path) if not is_plain else path, advice=advice)


def too_long_text(path: str) -> str:
    """Return the error for a configuration of git of which a part is not read."""
    return TOO_LONG.format(path=path if shlex.quote(path) == path else repr(path))


class Confinement:
    """The sandbox of one session.

    Args:
        parts: the session's. Its setting `sandbox` is the rule. `auto` sandboxes statements if the kernel can,
            `required` runs none otherwise, `off` never does. None is `off` without an event about it.
        questions: asks the user.
        roots: the session's absolute directories.
        protection: the protected files in these.
        scratch: its scratch directory.
        by_model: returns whether a model writes statements now, or the session only runs what the user types.
        dismissed: ends the current turn.
    """

    def __init__(
        self,
        parts: SessionParts,
        *,
        questions: Questions,
        roots: Sequence[str],
        protection: Protection,
        scratch: Scratch,
        by_model: Callable[[], bool],
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
        self._key_path = key_path(parts.spec.variables)
        self._usual_state = default_state_dir(parts.spec.variables)
        self._has_home = any(parts.spec.variables.get(name) for name in ("HOME", "XDG_CONFIG_HOME"))
        self._by_model = by_model
        self._dismissed = dismissed
        self._rights = UNHELD
        self._is_bare = False
        """Whether a worker was found to lack the layer of mounts."""
        self._places: tuple[str, ...] | None = None
        """The protected places when the sandbox was chosen; None before the first one."""
        self._chosen_marks: Mapping[str, Mark | None] = {}
        """The state of protected files when the sandbox was chosen."""
        self._marks: Mapping[str, Mark | None] | None = None
        """The state of the files that the kernel protects now; None if statements can write none of them anyway."""
        self._is_exposed = False
        """Whether the last worker saw a directory that must be hidden."""
        self.guard: Final = NameGuard()
        """Takes away protected names that appear while programs of a statement run."""
        self._late: list[Appeared] = []
        """Files that appeared between two statements, of which the user may have made some."""

    @property
    def is_foreign(self) -> bool:
        """Whether anyone but the user writes statements in the session, or has done so."""
        return self._by_model() or self._facts.is_foreign

    @property
    def _is_sandboxing(self) -> bool:
        return self.is_foreign and self._rule in ("auto", "required")

    def wanted(self) -> Domain | None:
        """Return the sandbox of the next statement; None for the user's own rights."""
        if not self._is_sandboxing:
            return None
        return domain_of(
            self._policy.mode,
            network=self._policy.option(NETWORK) == ON,
            roots=self._roots,
            scratch=self._scratch.path,
            state=self._state,
            protected=self._protected,
            own=self._own_directories,
            is_open=self._is_open,
        )

    @property
    def _own_directories(self) -> tuple[str, ...]:
        """Where other programs of this kind have what they trust: their settings, keys and sessions.

        The file of keys is, or will be, beside the settings, or where a link in its place leads now. Sessions of an
        agent that was started without `state_dir` are at the usual place.
        """
        keys = os.path.realpath(self._key_path.parent), os.path.dirname(os.path.realpath(self._key_path))
        return *keys, os.path.realpath(self._usual_state)

    @property
    def _is_open(self) -> bool:
        """Whether nothing protects part of this program, or files that others run, in the session's directories."""
        installation = self._protection.installation
        return bool(installation.open) or (self._is_bare and (bool(installation.parts) or self._has_protected))

    @property
    def _has_protected(self) -> bool:
        """Whether files that other programs run were in the session's directories when the sandbox was chosen."""
        return any(mark is not None and is_inside(path, self._roots) for path, mark in self._chosen_marks.items())

    def narrowed(self, domain: Domain, layers: Collection[Layer]) -> Domain | None:
        """Return the sandbox to use instead of one that a worker has entered with these layers; None if it may stay."""
        self._is_bare = is_bare(layers)
        return self.wanted() if domain.writable and self._is_open else None

    @property
    def _protected(self) -> tuple[str, ...]:
        # The same for the life of a worker, because other places make another sandbox. `hold` adds new ones.
        if self._places is None:
            self._choose_places()
        return self._places or ()

    def _choose_places(self) -> None:
        self._protection.places()
        self._chosen_marks = self._protection.marks()
        self._places = self._protection.current_places()

    def renew(self) -> bool:
        """Look for protected files again, for a fresh worker; return whether the mounts of the last one are too old.

        Then its checkpoints must not be used either, because they have its mounts. Blocks.
        """
        is_exposed, self._is_exposed = self._is_exposed, False
        if not self._is_sandboxing:
            return is_exposed
        if self._places is None:
            self._choose_places()
            return is_exposed
        if self._marks is not None:
            self._take_late(self._marks)
        before = self._places, self._chosen_marks
        self._choose_places()
        return is_exposed or (self._marks is not None and before != (self._places, self._chosen_marks))

    @property
    def distrusted(self) -> tuple[str, ...]:
        """Where sandboxed statements may have left programs, links resolved. The user's programs are not looked up
        there."""
        if not self._is_sandboxing:
            return ()
        return tuple(map(os.path.realpath, (self._scratch.path, *self._facts.writable)))

    def prepare(self, domain: Domain) -> None:
        """Make the scratch directory for a fresh worker, and this program's own: only existing ones can be hidden.

        Raises EnvironmentUnavailableError, also if the user may not read a root, or a part of a repository, or its
        configuration is too long.
        """
        if domain.writable:
            self._check_known()
        self._marks = self._chosen_marks if domain.writable else None
        for directory in self._own_directories if self._has_home else ():
            with suppress(OSError):
                os.makedirs(directory, mode=0o700, exist_ok=True)
        try:
            self._scratch.make()
        except OSError as error:
            raise EnvironmentUnavailableError(f"there is no scratch directory for statements: {error}") from None
        if domain.writable:
            self._watch()
        else:
            self.guard.end()

    async def hold(self, environment: Environment) -> None:
        """Let the kernel protect files that were made or replaced since the last time, and cover new Unix sockets.

        Raises EnvironmentUnavailableError, also if a hidden directory was made anew, or a program may have made a
        protected file (`is_new`): a fresh worker hides it, and ends the programs that may have it open.
        """
        if not self._is_hiding(environment):
            self._is_exposed = True
            raise EnvironmentUnavailableError("statements would see a directory that must be hidden")
        if self._is_sandboxing and environment.finds_sockets:
            await environment.hold(())
        if self._marks is None:
            return
        marks = await self._searched(self._protection.marks)
        self._check_known()
        if self._marks == marks:
            return
        if any(is_new(mark, self._marks.get(path)) for path, mark in marks.items()):
            raise EnvironmentUnavailableError("programs may have opened files before these became protected")
        before = self._marks
        self._watch()
        await anyio.to_thread.run_sync(self._take_late, before)
        await environment.hold(await anyio.to_thread.run_sync(self._protection.places))
        self._marks = marks

    def _watch(self) -> None:
        self.guard.begin(appearing.found(self._roots, self._protection.repositories, MOST))

    def _check_known(self) -> None:
        if self._protection.shut:
            raise EnvironmentUnavailableError(shut_text(self._protection.shut))
        if self._protection.too_long:
            raise EnvironmentUnavailableError(too_long_text(self._protection.too_long))

    def is_holding(self, environment: Environment) -> bool:
        """Whether all protected files are as when the kernel last protected them, and what must be hidden is.

        False also if that takes a search, for which `hold` does not let other sessions wait.
        """
        if not self._is_hiding(environment) or (self._is_sandboxing and environment.finds_sockets):
            return False
        protection = self._protection
        return self._marks is None or (not protection.has_changed and self._marks == protection.marks())

    def _is_hiding(self, environment: Environment) -> bool:
        return not self._is_sandboxing or environment.hides_all

    def _take_late(self, before: Mapping[str, Mark | None]) -> None:
        self._late += (each._replace(was_nothing=False) for each in self._protection.appeared(before))

    async def appeared(self) -> Sequence[Appeared]:
        """Return new files that other programs run.

        A program of a statement may have made them, because the kernel cannot mount what does not exist.
        """
        late, self._late = self._late, []
        before = self._marks
        if before is None:
            return late
        found = [*late, *await self._searched(lambda: list(self._protection.appeared(before)))]
        more = [Appeared(str(self._roots[0]), was_nothing=False, has_more=True)] * (len(found) > MOST_APPEARED)
        return [*found[:MOST_APPEARED], *more]

    async def has_appeared(self, allowed: Collection[str]) -> bool:
        """Whether a program may have made files that other programs run, since the last statement ended.

        `allowed` are real paths that the user allowed to be made.
        """
        before, mine = self._marks, tuple(allowed)
        if before is None or self._late or self.guard.has_taken:
            return bool(self._late) or self.guard.has_taken
        found = await self._searched(lambda: list(self._protection.appeared(before)))
        return not all(is_inside(each.path, mine) for each in found)

    async def _searched(self, search: Callable[[], T]) -> T:
        """Run what asks for the protected files, on a thread if these must be searched for again."""
        return await anyio.to_thread.run_sync(search) if self._protection.has_changed else search()

    async def enter(self, domain: Domain | None, layers: Collection[Layer], history: History) -> None:
        """Record that a worker runs in that sandbox, and ask the user if necessary.

        `layers` enforce it. `history` is what a rebuild would run.

        Raises:
            EnvironmentUnavailableError: it must be sandboxed and is not, or the question was dismissed.
        """
        is_in = domain is not None and is_held(layers, domain)
        if domain is not None and not is_in and self._rule == "required":
            raise EnvironmentUnavailableError(
                f"the setting `sandbox` is `required`, but this session has no sandbox: {_why(layers, domain)}"
            )
        self._rights = rights_in(domain, layers) if is_in and domain is not None else UNHELD
        if self._is_news(domain):
            self._record(domain, layers, history)
        if self._domains.asks:
            await self._ask(history)

    def allows(self, seq: int) -> bool:
        """Return whether the statement at that position may run again with the current rights."""
        return self._domains.allows(seq, self._rights)

    def may_write(self, place: str) -> bool:
        """Return whether the current rights let statements write that real path."""
        if not self._rights.held:
            return True
        mounted = () if self._rights.bare else self._protected
        return is_inside(place, self._rights.writable) and not is_inside(place, mounted)

    def given_to(self, seq: int) -> tuple[Rights, ...]:
        """Return the rights of the statement at that position of the active path."""
        return tuple(self._domains.given_to(seq))

    def ran_with(self, seq: int) -> str:
        """Return the earlier rights of the statement at that position, as the end of "they ran"."""
        return before_phrase([self._domains.ran_with(seq)])

    def beyond(self, given: Iterable[Rights]) -> Rights | None:
        """Return the current rights if they exceed all of these, else None."""
        return None if any(map(self._rights.within, given)) else self._rights

    def may_allow(self, seq: int) -> bool:
        """As `allows`, with the rights of the wanted sandbox, as far as they are known before a worker runs."""
        wanted = self.wanted()
        return self._domains.allows(seq, UNHELD if wanted is None else rights_in(wanted, (*LAYERS, *PARTS)))

    def _is_news(self, domain: Domain | None) -> bool:
        latest = self._domains.latest
        if latest is None:
            is_relevant = self._rule is not None and self.is_foreign
            return domain is not None or is_relevant or self._facts.imported_at >= 0
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
        """Ask the user about the sandbox entered last. The answer is on the log, for `Domains`."""
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
                "you have not decided whether earlier statements may run again with more permissions"
            )


def _why(layers: Collection[Layer], domain: Domain) -> str:
    missing = lacking(layers, domain)
    where = "" if lacking(layers) == missing else ", and statements may write the state directory"
    return f"this system does not offer {' and '.join(missing)}{where}"
