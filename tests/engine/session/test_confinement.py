"""Who gets a domain, what a change of it takes, and that nothing that was refused is done by a rebuild."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from engine import Session, Store
from engine.context.model import StatementAsked, TextDelta
from engine.context.tail.rights import rebuild_sentence
from engine.core.domain import LAYERS, PARTS, Domain, Layer, abilities
from engine.core.errors import EnvironmentUnavailableError
from engine.core.ids import SessionId
from engine.core.key_file import key_path
from engine.core.settings import SandboxRule, default_state_dir
from engine.files.protected import Protection
from engine.log.events.execution import ExecutionStarted
from engine.log.events.session import DomainEntered, Mode, PermissionAsked
from engine.log.past import Preserved
from engine.log.permissions import PermissionAnswer, RebuildSubject, StatementSubject
from engine.log.rights import Rights
from engine.log.statements import EffectAnswer, EffectHandler, EffectRequest, RunOutcome, RunRequest
from engine.log.store.memory import MemoryStore
from engine.runtime.system.kernel import AVAILABLE
from engine.session.confinement import domain_of, rights_in, shut_text, too_long_text
from tests.support.fixed import FixedClock
from tests.support.guarded import HELD, GuardedEnvironment, Kernel
from tests.support.models import Answer, AnsweringModel, says
from tests.support.permissions import FixedPermissions
from tests.support.sessions import session_in, sessions_of

pytestmark = pytest.mark.anyio

YES = PermissionAnswer(outcome="allowed")
NO = PermissionAnswer(outcome="rejected")
ESCAPED = PermissionAnswer(outcome="cancelled")
LEAST = "in a sandbox, without a network, and their own code writes only in their scratch directory"


def writes(*sources: str) -> Answer:
    """A model that writes one statement after the other, one in each turn."""
    left = list(sources)
    is_asked = [False]

    def answer(_: object) -> Sequence[StatementAsked | TextDelta]:
        is_asked[0] = not is_asked[0]
        return [StatementAsked(left.pop(0))] if is_asked[0] else [TextDelta("Done.")]

    return answer


@asynccontextmanager
async def served(
    tmp_path: Path,
    kernel: Kernel,
    answer: Answer | None,
    *,
    load: SessionId | None = None,
    store: Store | None = None,
    rule: SandboxRule | None = "auto",
    user: FixedPermissions | None = None,
) -> AsyncGenerator[Session]:
    """A session over a kernel with these layers, new or loaded, whose user gives these answers."""
    model = None if answer is None else AnsweringModel(answer)
    settings: dict[str, object] = {"sandbox": rule}
    async with session_in(
        tmp_path, store, load=load, model=model, environments=kernel.environment, settings=settings
    ) as session:
        if user is not None:
            session.attach(user)
        yield session


async def turns(session: Session, count: int = 1) -> None:
    for _ in range(count):
        assert (await session.accept("go").end()).cause == "end_turn"


def entered(session: Session) -> list[tuple[bool, tuple[str, ...], bool, int]]:
    return [
        (event.held, event.writable, event.network, event.statements)
        for event in session.events
        if isinstance(event, DomainEntered)
    ]


def kept_in(place: str) -> list[str] | None:
    return os.listdir(place) if os.path.isdir(place) else None


async def test_model_statements_are_sandboxed_from_the_first_worker(tmp_path: Path) -> None:
    kernel = Kernel()
    user = FixedPermissions([])
    async with served(tmp_path, kernel, writes("x = 1", "y = 2"), user=user) as session:
        await turns(session, 2)
        assert [source for source, _ in kernel.ran_in] == ["x = 1", "y = 2"]
    (domain,) = kernel.domains
    assert domain is not None
    assert (domain.writable, domain.network) == ((), False)
    assert domain.hidden == (str(key_path({}).parent), str(default_state_dir({})))
    assert not key_path({}).parent.exists()
    assert os.path.dirname(domain.scratch) == str(tmp_path / "scratch")
    assert entered(session) == [(True, (), False, 0)]
    assert user.questions == []


@pytest.mark.parametrize(("reason", "text"), [("shut", shut_text), ("too_long", too_long_text)])
async def test_nothing_runs_beside_a_repository_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str, text: Callable[[str], str]
) -> None:
    shut = str(tmp_path / ".git")
    places = Protection.places

    def found_shut(self: Protection) -> tuple[str, ...]:
        found = places(self)
        setattr(self, reason, shut)
        return found

    kernel = Kernel()
    async with served(tmp_path, kernel, writes("x = 1", "y = 2")) as session:
        session.set_mode("auto")
        await turns(session)
        with monkeypatch.context() as patch:
            patch.setattr(Protection, "places", found_shut)
            os.mkdir(os.path.join(session.cwd, "new"))
            for _ in range(2):
                end = await session.accept("go").end()
                assert (end.cause, text(shut) in (end.detail or "")) == ("error", True)
        os.mkdir(os.path.join(session.cwd, "newer"))
        await turns(session)
    assert [source for source, _ in kernel.ran_in] == ["x = 1", "y = 2"]


@pytest.mark.parametrize("name", ["a;sh evil.sh;#", "a b", "$(id)", "a\nb", "-R"])
def test_no_command_is_recommended_with_a_name_that_a_shell_would_run(tmp_path: Path, name: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert f"chmod -R u+rX -- {tmp_path}" in shut_text(str(tmp_path))
    is_plain = name == "-R"
    assert ("chmod" in shut_text(f"{tmp_path}/{name}")) is is_plain
    assert "chmod" not in shut_text(str(tmp_path / "link"))
    assert "\n" not in shut_text(f"{tmp_path}/{name}")


def envrc_appears(folder: Path) -> None:
    (folder / ".envrc").write_text("")


def script_is_named(folder: Path) -> None:
    (folder / ".git/config").write_text("[core]\n\tfsmonitor = ./watch.sh\n")


def link_becomes_a_file(folder: Path) -> None:
    (folder / "new").write_text("")
    (folder / "new").rename(folder / ".mise.toml")


def link_becomes_a_directory(folder: Path) -> None:
    (folder / ".githooks").unlink()
    (folder / ".githooks").mkdir()


def configuration_is_replaced(folder: Path) -> None:
    (folder / "new").write_text("")
    (folder / "new").rename(folder / ".git/config")


def nothing_protected_changes(folder: Path) -> None:
    (folder / "notes.md").write_text("")


@pytest.mark.parametrize(
    ("change", "workers"),
    [
        (envrc_appears, 2),
        (script_is_named, 2),
        (link_becomes_a_file, 2),
        (link_becomes_a_directory, 2),
        (configuration_is_replaced, 1),
        (nothing_protected_changes, 1),
    ],
)
async def test_what_programs_may_have_open_ends_them_when_it_becomes_protected(
    tmp_path: Path, change: Callable[[Path], None], workers: int
) -> None:
    kernel = Kernel()
    async with served(tmp_path, kernel, writes("x = 1", "y = 2", "z = 3")) as session:
        folder = Path(session.cwd)
        for name in ("objects", "refs"):
            (folder / ".git" / name).mkdir(parents=True)
        for name in (".git/HEAD", ".git/config", "watch.sh"):
            (folder / name).touch()
        (folder / "scripts").mkdir()
        for name, target in ((".mise.toml", "scripts/mise"), (".githooks", "scripts")):
            (folder / name).symlink_to(target)
        session.set_mode("auto")
        await turns(session)
        change(folder)
        await turns(session, 2)
    assert len(kernel.domains) == workers
    assert [source for source, _ in kernel.ran_in] == ["x = 1", "y = 2", "z = 3"]


async def test_protected_files_are_read_only_from_the_first_worker(tmp_path: Path) -> None:
    kernel = Kernel()
    async with served(tmp_path, kernel, writes("x = 1")) as session:
        envrc_appears(Path(session.cwd))
        session.set_mode("auto")
        await turns(session)
    (domain,) = kernel.domains
    assert domain is not None
    assert os.path.join(session.cwd, ".envrc") in domain.read_only


BARE: tuple[Layer, ...] = ("landlock", "seccomp")


def repository_appears(folder: Path) -> None:
    for name in ("objects", "refs"):
        (folder / ".git" / name).mkdir(parents=True)
    for name in ("HEAD", "config"):
        (folder / ".git" / name).touch()


@pytest.mark.parametrize(
    ("layers", "change", "is_writable"),
    [
        (BARE, nothing_protected_changes, True),
        (BARE, repository_appears, False),
        (BARE, envrc_appears, False),
        (LAYERS, repository_appears, True),
    ],
)
async def test_programs_write_beside_what_others_run_only_with_mounts(
    tmp_path: Path, layers: tuple[Layer, ...], change: Callable[[Path], None], is_writable: bool
) -> None:
    kernel = Kernel(layers)
    async with served(tmp_path, kernel, writes("x = 1")) as session:
        change(Path(session.cwd))
        session.set_mode("auto")
        await turns(session)
        (event,) = (each for each in session.events if isinstance(each, DomainEntered))
    ((_, domain),) = kernel.ran_in
    assert domain is not None
    assert domain.writable == event.writable == ((session.cwd,) if is_writable else ())
    assert event.bare == (layers == BARE)


async def test_a_repository_that_appears_ends_writing_beside_it_without_mounts(tmp_path: Path) -> None:
    kernel = Kernel(BARE)
    async with served(tmp_path, kernel, writes("x = 1", "y = 2")) as session:
        session.set_mode("auto")
        await turns(session)
        repository_appears(Path(session.cwd))
        await turns(session)
    assert [bool(domain and domain.writable) for _, domain in kernel.ran_in] == [True, False]


class Prompt(GuardedEnvironment):
    """Has kept what each statement changed by the time that it has ended, so the next one waits for nothing."""

    def kept(self) -> Preserved:
        return Preserved()


async def test_idle_worker_gets_no_statement_while_a_new_file_is_unprotected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel()
    monkeypatch.setattr(kernel, "environment", lambda: Prompt(kernel))
    async with served(tmp_path, kernel, writes("x = 1")) as session:
        session.set_mode("auto")
        await turns(session)
        await session.cell("y = 2")
        assert len(kernel.domains) == 1
        envrc_appears(Path(session.cwd))
        await session.cell("z = 3")
    assert len(kernel.domains) == 2


class Finding(Prompt):
    """Finds a Unix socket until it holds it."""

    async def hold(self, places: Sequence[str]) -> None:
        await super().hold(places)
        self.finds_sockets = False


async def test_a_new_unix_socket_is_covered_before_the_next_statement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, found = Kernel(), list[Finding]()

    def environment() -> Finding:
        found.append(Finding(kernel))
        return found[-1]

    monkeypatch.setattr(kernel, "environment", environment)
    async with served(tmp_path, kernel, writes("x = 1")) as session:
        await turns(session)
        for source in ("y = 2", "z = 3"):
            found[-1].finds_sockets = True
            await session.cell(source)
            assert not found[-1].finds_sockets
    assert len(kernel.domains) == 1
    assert [source for source, _ in kernel.ran_in] == ["x = 1", "y = 2", "z = 3"]


class Commands(GuardedEnvironment):
    """Each statement runs one command outside the sandbox; two of that name make a protected file before, and one
    removes it again."""

    async def run(self, request: RunRequest, effects: EffectHandler, *rest: Any) -> RunOutcome:
        outcome = await super().run(request, effects, *rest)
        if request.source in MAKING:
            envrc_appears(self.folder)
        if request.source == "makes_and_removes()":
            (self.folder / ".envrc").unlink(missing_ok=True)
        self.answers.append(await effects(ASKS))
        return outcome

    folder: Path
    answers: list[EffectAnswer]


MAKING = ("makes()", *["makes_and_removes()"] * AVAILABLE)
ASKS = EffectRequest(ordinal=0, operation="bash", arguments={"command": "make", "outside": True})


@pytest.mark.parametrize("making", MAKING)
async def test_a_remembered_command_is_asked_about_again_after_a_program_made_what_it_may_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, making: str
) -> None:
    kernel, user, answers = Kernel(), FixedPermissions([replace(YES, remember=True), NO]), list[EffectAnswer]()

    def environment() -> Commands:
        made = Commands(kernel)
        made.folder, made.answers = tmp_path, answers
        return made

    monkeypatch.setattr(kernel, "environment", environment)
    async with served(tmp_path, kernel, writes("a()", "b()", making), user=user) as session:
        session.set_mode("auto")
        await turns(session, 2)
        assert [len(user.questions), *(answer.error for answer in answers)] == [1, None, None]
        await turns(session)
    assert len(user.questions) == 2
    assert answers[-1].error is not None


async def test_no_other_session_waits_for_a_search_for_protected_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched_on: list[int] = []
    places = Protection.places

    def noted(self: Protection) -> tuple[str, ...]:
        searched_on.append(threading.get_ident())
        return places(self)

    monkeypatch.setattr(Protection, "places", noted)
    count = 4
    answer, made = writes(*(f"x = {number}" for number in range(count))), iter(range(2 * count))

    def makes_a_directory(prompt: object) -> Sequence[StatementAsked | TextDelta]:
        (Path(session.cwd) / f"d{next(made)}").mkdir()
        return answer(prompt)

    async with served(tmp_path, Kernel(), makes_a_directory) as session:
        session.set_mode("auto")
        await turns(session, count)
    assert len(searched_on) > count
    assert threading.get_ident() not in searched_on


async def test_statements_ask_where_the_kernel_cannot_sandbox(tmp_path: Path) -> None:
    for layers in ((), ("landlock", "mounts"), ("seccomp", "mounts")):
        user = FixedPermissions([YES, NO])
        kernel = Kernel(layers)
        async with served(tmp_path, kernel, writes("x = 1", "y = 2"), user=user) as session:
            await turns(session, 2)
        assert [question.subject for question in user.questions] == [
            StatementSubject("x = 1"),
            StatementSubject("y = 2"),
        ]
        assert [source for source, _ in kernel.ran_in] == ["x = 1"]
        assert entered(session) == [(False, (), False, 0)]


@pytest.mark.parametrize(("rule", "said"), [("off", [(False, (), False, 0)]), (None, [])])
async def test_disabled_sandbox_is_announced_unless_the_program_wants_none(
    tmp_path: Path, rule: SandboxRule | None, said: list[object]
) -> None:
    kernel = Kernel()
    async with served(tmp_path, kernel, writes("x = 1"), rule=rule, user=FixedPermissions([YES])) as session:
        await turns(session)
    assert kernel.ran_in == [("x = 1", None)]
    assert entered(session) == said
    kinds = [type(event) for event in session.events]
    assert not said or kinds.index(DomainEntered) < kinds.index(PermissionAsked) < kinds.index(ExecutionStarted)


async def test_where_it_is_required_nothing_runs_without(tmp_path: Path) -> None:
    kernel = Kernel(())
    async with served(tmp_path, kernel, writes("x = 1"), rule="required") as session:
        end = await session.accept("go").end()
    assert (end.cause, kernel.ran_in) == ("error", [])


async def test_what_the_user_types_has_the_user_s_rights(tmp_path: Path) -> None:
    kernel = Kernel()
    async with served(tmp_path, kernel, None, rule="required") as session:
        await session.accept("x = 1").end()
        await session.cell("y = 2")
    assert kernel.ran_in == [("x = 1", None), ("y = 2", None)]
    assert entered(session) == []


async def test_typed_statements_are_sandboxed_after_model_statements_everywhere(tmp_path: Path) -> None:
    store, kernel = MemoryStore(FixedClock()), Kernel()
    async with served(tmp_path, kernel, writes("x = 1"), store=store) as session:
        await turns(session)
    settings: dict[str, object] = {"sandbox": "auto"}
    async with sessions_of(tmp_path, store, environments=kernel.environment, settings=settings) as sessions:
        loaded = await sessions.load(session.session_id)
        await loaded.rewind(0)
        await loaded.accept("y = 2").end()
        forked = await sessions.fork(session.session_id)
        await forked.accept("z = 3").end()
    assert [source for source, domain in kernel.ran_in if domain is None] == []
    assert len(kernel.ran_in) == 3


async def test_client_statement_reruns_earlier_ones_in_the_domain(tmp_path: Path) -> None:
    kernel = Kernel()
    async with served(tmp_path, kernel, None) as session:
        await session.cell("x = 1")
        await session.cell("y = x", author="client")
        await session.cell("z = y")
    domains = [domain for _, domain in kernel.ran_in]
    assert domains[0] is None
    assert None not in domains[1:]
    assert kernel.rerun == [["x = 1"]]


@pytest.mark.parametrize(
    ("answer", "again"), [(YES, ["x = 1", "y = 2"]), (NO, list[str]())], ids=["with the user's word", "without"]
)
async def test_more_rights_take_a_fresh_worker_and_consent(
    tmp_path: Path, answer: PermissionAnswer, again: list[str]
) -> None:
    kernel, user = Kernel(), FixedPermissions([answer])
    async with served(tmp_path, kernel, writes("x = 1", "y = 2", "z = 3", "w = 4"), user=user) as session:
        await turns(session, 2)
        session.set_mode("auto")
        await turns(session, 2)
        assert [question.subject for question in user.questions] == [
            RebuildSubject(statements=(1, 2), held=True, writable=(str(tmp_path),), lacks=(), before=LEAST)
        ]
        assert kernel.rerun == [again]
        await session.rest()
        await session.cell("1")
        assert [question.subject for question in user.questions[1:]] == []
        assert kernel.rerun[1:] == [[*again, "z = 3", "w = 4"]]
    assert entered(session) == [(True, (), False, 0), (True, (str(tmp_path),), False, 2)]


async def test_fewer_rights_take_a_fresh_worker_and_ask_nobody(tmp_path: Path) -> None:
    kernel = Kernel()
    async with served(tmp_path, kernel, writes("x = 1", "y = 2", "z = 3")) as session:
        session.set_mode("auto")
        await turns(session)
        session.set_mode("ask")
        await turns(session)
        session.set_mode("plan")
        await turns(session)
    assert [domain is not None and domain.writable for domain in kernel.domains] == [(str(tmp_path),), ()]
    assert kernel.rerun == [["x = 1"]]


async def test_nobody_to_ask_is_no_word(tmp_path: Path) -> None:
    store, kernel = MemoryStore(FixedClock()), Kernel()
    async with served(tmp_path, kernel, writes("x = 1"), store=store) as session:
        await turns(session)
        session.set_mode("auto")
    async with served(tmp_path, kernel, says("Hello."), store=store, load=session.session_id) as session:
        await turns(session)
    assert kernel.rerun == [[]]


async def test_a_question_that_is_dismissed_is_asked_again(tmp_path: Path) -> None:
    kernel, user = Kernel(), FixedPermissions([ESCAPED, YES])
    async with served(tmp_path, kernel, writes("x = 1", "y = 2"), user=user) as session:
        await turns(session)
        session.set_mode("auto")
        assert (await session.accept("go").end()).cause == "cancelled"
        await turns(session)
    assert (len(user.questions), kernel.rerun) == (2, [["x = 1"]])


async def test_formerly_sandboxed_session_asks_before_it_reruns(tmp_path: Path) -> None:
    store, kernel, user = MemoryStore(FixedClock()), Kernel(), FixedPermissions([NO])
    async with served(tmp_path, kernel, writes("x = 1"), store=store) as session:
        await turns(session)
    for rule, layers in (("off", kernel.layers), ("auto", ())):
        other, user = Kernel(layers), FixedPermissions([NO])
        copied = MemoryStore(FixedClock())
        copied.add(store.row(session.session_id), store.load(session.session_id))
        async with served(tmp_path, other, None, store=copied, rule=rule, load=session.session_id, user=user) as loaded:
            await loaded.accept("y = 2").end()
            assert [question.subject for question in user.questions] == [
                RebuildSubject(statements=(1,), held=False, before=LEAST)
            ]
            assert other.rerun == [[]]
            assert entered(loaded)[1:] == [(False, (), False, 1)]


async def test_state_directory_in_the_workspace_is_not_writable_unprotected(tmp_path: Path) -> None:
    bare = Kernel(("landlock", "seccomp", *PARTS))
    (tmp_path / "home").mkdir()
    async with session_in(
        tmp_path / "home",
        state=tmp_path / "home/state",
        model=AnsweringModel(writes("x = 1", "y = 2")),
        environments=bare.environment,
        settings={"sandbox": "auto"},
    ) as session:
        await turns(session)
        session.set_mode("auto")
        user = FixedPermissions([NO])
        session.attach(user)
        await turns(session)
    assert [held for held, *_ in entered(session)] == [True, False]
    assert isinstance(user.questions[0].subject, RebuildSubject)


@pytest.mark.parametrize("part", PARTS)
async def test_missing_part_of_landlock_asks_before_a_rerun(tmp_path: Path, part: Layer) -> None:
    store = MemoryStore(FixedClock())
    async with served(tmp_path, Kernel(), writes("x = 1", "y = 2"), store=store) as session:
        await turns(session)
    older, user = Kernel([each for each in HELD if each != part]), FixedPermissions([NO])
    async with served(tmp_path, older, writes("y = 2"), store=store, load=session.session_id, user=user) as loaded:
        await turns(loaded)
        (asked,) = (question.subject for question in user.questions)
        assert isinstance(asked, RebuildSubject)
        assert asked == RebuildSubject(statements=(1,), held=True, lacks=(part,), before=LEAST)
        assert abilities((part,), bare=False)[0] in rebuild_sentence(asked)
    newer, nobody = Kernel(), FixedPermissions([])
    async with served(tmp_path, newer, None, store=store, load=session.session_id, user=nobody) as loaded:
        await loaded.accept("z = 3").end()
    assert (older.rerun, newer.rerun, nobody.questions) == ([[]], [["x = 1", "y = 2"]], [])


async def test_old_log_without_kernel_parts_asks_nothing(tmp_path: Path) -> None:
    store = MemoryStore(FixedClock())
    async with served(tmp_path, Kernel(), writes("x = 1"), store=store) as session:
        await turns(session)
    before = MemoryStore(FixedClock())
    said = [replace(event, lacks=None) if isinstance(event, DomainEntered) else event for event in session.events]
    before.add(store.row(session.session_id), said)
    older, nobody = Kernel(("landlock", "seccomp", "mounts")), FixedPermissions([])
    async with served(tmp_path, older, None, store=before, load=session.session_id, user=nobody) as loaded:
        await loaded.accept("z = 3").end()
    assert (older.rerun, nobody.questions) == ([["x = 1"]], [])


async def test_scratch_directory_is_private_and_goes_with_the_session(tmp_path: Path) -> None:
    store, kernel = MemoryStore(FixedClock()), Kernel()
    async with served(tmp_path, kernel, writes("x = 1"), store=store) as session:
        assert not (tmp_path / "scratch").exists()
        await turns(session)
        (domain,) = kernel.domains
        assert domain is not None
        assert stat.S_IMODE(os.stat(domain.scratch).st_mode) == 0o700
        os.mkdir(f"{domain.scratch}/kept")
    assert kept_in(domain.scratch) == ["kept"]
    settings: dict[str, object] = {"sandbox": "auto"}
    async with sessions_of(tmp_path, store, environments=kernel.environment, settings=settings) as sessions:
        await sessions.load(session.session_id)
        await sessions.delete(session.session_id)
    assert kept_in(domain.scratch) is None


async def test_a_scratch_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "scratch").write_text("in the way")
    async with served(tmp_path, Kernel(), None) as session:
        with pytest.raises(EnvironmentUnavailableError, match="scratch"):
            await session.cell("1", author="client")


ROOTS = ("/work/project", "/more")
KEPT = ("/work/project/.git/config", "/more/.git/hooks")


def domain(mode: Mode, *, network: bool = False) -> Domain:
    return domain_of(mode, network=network, roots=ROOTS, scratch="/state/scratch/s", state="/state", protected=KEPT)


@pytest.mark.parametrize("mode", [mode for mode in get_args(Mode) if mode != "auto"])
def test_asking_and_refusing_modes_write_scratch_alone(mode: Mode) -> None:
    assert domain(mode) == Domain(scratch="/state/scratch/s", hidden=("/state",))


def test_auto_adds_directories_except_what_git_runs() -> None:
    found = domain("auto")
    assert found.writable == ROOTS
    assert found.read_only == KEPT
    assert rights_in(found, (*LAYERS, *PARTS)) == Rights(writable=ROOTS, lacks=())


def test_state_directory_is_visible_to_a_session_in_it() -> None:
    roots = ("/state/work",)
    found = domain_of("ask", network=False, roots=roots, scratch="/state/scratch/s", state="/state", protected=())
    assert found.hidden == ()


def test_directory_of_keys_is_hidden_unless_the_session_is_in_it() -> None:
    for roots, hidden in ((ROOTS, ("/state", "/config/rewindow")), (("/config/rewindow/mine",), ("/state",))):
        found = domain_of(
            "ask", network=False, roots=roots, scratch="/s", state="/state", protected=(), own=("/config/rewindow",)
        )
        assert found.hidden == hidden


@pytest.mark.parametrize("mode", get_args(Mode))
def test_the_network_is_off_unless_it_is_allowed(mode: Mode) -> None:
    assert not domain(mode).network
    assert domain(mode, network=True).network
    assert rights_in(domain(mode, network=True), LAYERS).network


def test_statements_write_no_directory_with_an_open_part_of_this_program() -> None:
    found = domain_of("auto", network=False, roots=ROOTS, scratch="/s", state="/state", protected=KEPT, is_open=True)
    assert (found.writable, found.read_only) == ((), ())
