"""Who gets a domain, what a change of it takes, and that nothing that was refused is done by a rebuild."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine import Session, Sessions, Store
from engine.context.model import StatementAsked, TextDelta
from engine.context.tail.rights import rebuild_sentence
from engine.core.domain import PARTS, Layer
from engine.core.errors import EnvironmentUnavailableError
from engine.core.settings import SandboxRule
from engine.log.events.execution import ExecutionStarted
from engine.log.events.session import DomainEntered, PermissionAsked
from engine.log.permissions import PermissionAnswer, RebuildSubject, StatementSubject
from engine.log.store.memory import MemoryStore
from tests.support.fixed import FixedClock
from tests.support.guarded import HELD, Kernel
from tests.support.models import Answer, AnsweringModel, says
from tests.support.permissions import FixedPermissions
from tests.support.sessions import sessions_of

pytestmark = pytest.mark.anyio

YES = PermissionAnswer(outcome="allowed")
NO = PermissionAnswer(outcome="rejected")
ESCAPED = PermissionAnswer(outcome="cancelled")
LEAST = "in a sandbox, without a network: by themselves they write only in their scratch directory"


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
    store: Store | None = None,
    rule: SandboxRule | None = "auto",
) -> AsyncGenerator[Sessions]:
    async with sessions_of(
        tmp_path,
        store,
        model=None if answer is None else AnsweringModel(answer),
        environments=kernel.environment,
        settings={"sandbox": rule},
    ) as sessions:
        yield sessions


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


async def test_what_a_model_writes_is_held_from_the_first_worker_on_and_asks_nothing(tmp_path: Path) -> None:
    kernel = Kernel()
    user = FixedPermissions([])
    async with served(tmp_path, kernel, writes("x = 1", "y = 2")) as sessions:
        session = await sessions.create(str(tmp_path))
        session.attach(user)
        await turns(session, 2)
        assert [source for source, _ in kernel.ran_in] == ["x = 1", "y = 2"]
    (domain,) = kernel.domains
    assert domain is not None
    assert (domain.writable, domain.network, domain.hidden) == ((), False, ())
    assert os.path.dirname(domain.scratch) == str(tmp_path / "scratch")
    assert entered(session) == [(True, (), False, 0)]
    assert user.questions == []


async def test_a_kernel_that_does_not_hold_it_has_each_statement_ask(tmp_path: Path) -> None:
    for layers in ((), ("landlock", "mounts"), ("seccomp", "mounts")):
        user = FixedPermissions([YES, NO])
        kernel = Kernel(layers)  # type: ignore[arg-type]
        async with served(tmp_path, kernel, writes("x = 1", "y = 2")) as sessions:
            session = await sessions.create(str(tmp_path))
            session.attach(user)
            await turns(session, 2)
        assert [question.subject for question in user.questions] == [
            StatementSubject("x = 1"),
            StatementSubject("y = 2"),
        ]
        assert [source for source, _ in kernel.ran_in] == ["x = 1"]
        assert entered(session) == [(False, (), False, 0)]


@pytest.mark.parametrize(("rule", "said"), [("off", [(False, (), False, 0)]), (None, [])])
async def test_who_turns_the_sandbox_off_is_told_first_and_a_program_that_wants_none_is_not(
    tmp_path: Path, rule: SandboxRule | None, said: list[object]
) -> None:
    kernel = Kernel()
    async with served(tmp_path, kernel, writes("x = 1"), rule=rule) as sessions:
        session = await sessions.create(str(tmp_path))
        session.attach(FixedPermissions([YES]))
        await turns(session)
    assert kernel.ran_in == [("x = 1", None)]
    assert entered(session) == said
    kinds = [type(event) for event in session.events]
    assert not said or kinds.index(DomainEntered) < kinds.index(PermissionAsked) < kinds.index(ExecutionStarted)


async def test_where_it_is_required_nothing_runs_without(tmp_path: Path) -> None:
    kernel = Kernel(())
    async with served(tmp_path, kernel, writes("x = 1"), rule="required") as sessions:
        session = await sessions.create(str(tmp_path))
        end = await session.accept("go").end()
    assert (end.cause, kernel.ran_in) == ("error", [])


async def test_what_the_user_types_has_the_user_s_rights(tmp_path: Path) -> None:
    kernel = Kernel()
    async with served(tmp_path, kernel, None, rule="required") as sessions:
        session = await sessions.create(str(tmp_path))
        await session.accept("x = 1").end()
        await session.cell("y = 2")
    assert kernel.ran_in == [("x = 1", None), ("y = 2", None)]
    assert entered(session) == []


async def test_what_the_user_types_is_held_where_a_model_has_written_also_on_other_branches_and_in_forks(
    tmp_path: Path,
) -> None:
    store, kernel = MemoryStore(FixedClock()), Kernel()
    async with served(tmp_path, kernel, writes("x = 1"), store=store) as sessions:
        session = await sessions.create(str(tmp_path))
        await turns(session)
    async with served(tmp_path, kernel, None, store=store) as sessions:
        loaded = await sessions.load(session.session_id)
        await loaded.rewind(0)
        await loaded.accept("y = 2").end()
        forked = await sessions.fork(session.session_id)
        await forked.accept("z = 3").end()
    assert [source for source, domain in kernel.ran_in if domain is None] == []
    assert len(kernel.ran_in) == 3


async def test_a_client_s_statement_has_what_the_user_typed_before_it_run_again_in_the_domain(tmp_path: Path) -> None:
    kernel = Kernel()
    async with served(tmp_path, kernel, None) as sessions:
        session = await sessions.create(str(tmp_path))
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
async def test_more_rights_take_a_fresh_worker_and_the_user_s_word_for_what_ran_with_fewer(
    tmp_path: Path, answer: PermissionAnswer, again: list[str]
) -> None:
    kernel, user = Kernel(), FixedPermissions([answer])
    async with served(tmp_path, kernel, writes("x = 1", "y = 2", "z = 3", "w = 4")) as sessions:
        session = await sessions.create(str(tmp_path))
        session.attach(user)
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
    async with served(tmp_path, kernel, writes("x = 1", "y = 2", "z = 3")) as sessions:
        session = await sessions.create(str(tmp_path))
        session.set_mode("auto")
        await turns(session)
        session.set_mode("ask")
        await turns(session)
        session.set_mode("plan")
        await turns(session)
    assert [domain is not None and domain.writable for domain in kernel.domains] == [(str(tmp_path),), ()]
    assert kernel.rerun == [["x = 1"]]


async def test_a_network_is_more_rights(tmp_path: Path) -> None:
    kernel, user = Kernel(), FixedPermissions([NO])
    async with served(tmp_path, kernel, writes("x = 1", "y = 2")) as sessions:
        session = await sessions.create(str(tmp_path))
        session.attach(user)
        await turns(session)
        session.set_option("network", "on")
        await turns(session)
    assert [domain is not None and domain.network for domain in kernel.domains] == [False, True]
    assert (len(user.questions), kernel.rerun) == (1, [[]])


async def test_nobody_to_ask_is_no_word(tmp_path: Path) -> None:
    store, kernel = MemoryStore(FixedClock()), Kernel()
    async with served(tmp_path, kernel, writes("x = 1"), store=store) as sessions:
        session = await sessions.create(str(tmp_path))
        await turns(session)
        session.set_mode("auto")
    async with served(tmp_path, kernel, says("Hello."), store=store) as sessions:
        session = await sessions.load(session.session_id)
        await turns(session)
    assert kernel.rerun == [[]]


async def test_a_question_that_is_dismissed_is_asked_again(tmp_path: Path) -> None:
    kernel, user = Kernel(), FixedPermissions([ESCAPED, YES])
    async with served(tmp_path, kernel, writes("x = 1", "y = 2")) as sessions:
        session = await sessions.create(str(tmp_path))
        session.attach(user)
        await turns(session)
        session.set_mode("auto")
        assert (await session.accept("go").end()).cause == "cancelled"
        await turns(session)
    assert (len(user.questions), kernel.rerun) == (2, [["x = 1"]])


async def test_a_session_that_was_held_is_told_where_it_is_no_more_and_asked_before_anything_runs_again(
    tmp_path: Path,
) -> None:
    store, kernel, user = MemoryStore(FixedClock()), Kernel(), FixedPermissions([NO])
    async with served(tmp_path, kernel, writes("x = 1"), store=store) as sessions:
        session = await sessions.create(str(tmp_path))
        await turns(session)
    for rule, layers in (("off", kernel.layers), ("auto", ())):
        other, user = Kernel(layers), FixedPermissions([NO])
        copied = MemoryStore(FixedClock())
        copied.add(store.row(session.session_id), store.load(session.session_id))
        async with served(tmp_path, other, None, store=copied, rule=rule) as sessions:  # type: ignore[arg-type]
            loaded = await sessions.load(session.session_id)
            loaded.attach(user)
            await loaded.accept("y = 2").end()
            assert [question.subject for question in user.questions] == [
                RebuildSubject(statements=(1,), held=False, before=LEAST)
            ]
            assert other.rerun == [[]]
            assert entered(loaded)[1:] == [(False, (), False, 1)]


async def test_the_state_directory_in_the_workspace_is_not_written_where_nothing_keeps_it(tmp_path: Path) -> None:
    bare = Kernel(("landlock", "seccomp", *PARTS))
    (tmp_path / "home").mkdir()
    async with sessions_of(
        tmp_path / "home/state",
        model=AnsweringModel(writes("x = 1", "y = 2")),
        environments=bare.environment,
        settings={"sandbox": "auto"},
    ) as sessions:
        session = await sessions.create(str(tmp_path / "home"))
        await turns(session)
        session.set_mode("auto")
        user = FixedPermissions([NO])
        session.attach(user)
        await turns(session)
    assert [held for held, *_ in entered(session)] == [True, False]
    assert isinstance(user.questions[0].subject, RebuildSubject)


async def test_a_system_without_file_trees_of_one_s_own_has_more_rights_and_is_asked_about(tmp_path: Path) -> None:
    store = MemoryStore(FixedClock())
    async with served(tmp_path, Kernel(), writes("x = 1", "y = 2"), store=store) as sessions:
        session = await sessions.create(str(tmp_path))
        await turns(session)
    bare, user = Kernel(("landlock", "seccomp", *PARTS)), FixedPermissions([NO])
    async with served(tmp_path, bare, writes("y = 2"), store=store) as sessions:
        loaded = await sessions.load(session.session_id)
        loaded.attach(user)
        await turns(loaded)
        (asked,) = (question.subject for question in user.questions)
        assert isinstance(asked, RebuildSubject)
        assert asked == RebuildSubject(statements=(1,), held=True, bare=True, lacks=(), before=LEAST)
        assert "scratch directory, and can change modes, owners and times of files elsewhere" in rebuild_sentence(asked)
    back = Kernel()
    async with served(tmp_path, back, None, store=store) as sessions:
        loaded = await sessions.load(session.session_id)
        await loaded.accept("z = 3").end()
    assert (bare.rerun, back.rerun) == ([[]], [["x = 1", "y = 2"]])


@pytest.mark.parametrize("part", PARTS)
async def test_a_kernel_with_less_of_landlock_has_more_rights_and_is_asked_about(tmp_path: Path, part: Layer) -> None:
    store = MemoryStore(FixedClock())
    async with served(tmp_path, Kernel(), writes("x = 1", "y = 2"), store=store) as sessions:
        session = await sessions.create(str(tmp_path))
        await turns(session)
    older, user = Kernel([each for each in HELD if each != part]), FixedPermissions([NO])
    async with served(tmp_path, older, writes("y = 2"), store=store) as sessions:
        loaded = await sessions.load(session.session_id)
        loaded.attach(user)
        await turns(loaded)
        (asked,) = (question.subject for question in user.questions)
        assert isinstance(asked, RebuildSubject)
        assert asked == RebuildSubject(statements=(1,), held=True, lacks=(part,), before=LEAST)
        assert PARTS[part] in rebuild_sentence(asked)
    newer, nobody = Kernel(), FixedPermissions([])
    async with served(tmp_path, newer, None, store=store) as sessions:
        loaded = await sessions.load(session.session_id)
        loaded.attach(nobody)
        await loaded.accept("z = 3").end()
    assert (older.rerun, newer.rerun, nobody.questions) == ([[]], [["x = 1", "y = 2"]], [])


async def test_a_log_that_does_not_say_what_its_kernel_lacked_is_not_asked_about_for_that(tmp_path: Path) -> None:
    store = MemoryStore(FixedClock())
    async with served(tmp_path, Kernel(), writes("x = 1"), store=store) as sessions:
        session = await sessions.create(str(tmp_path))
        await turns(session)
    before = MemoryStore(FixedClock())
    said = [replace(event, lacks=None) if isinstance(event, DomainEntered) else event for event in session.events]
    before.add(store.row(session.session_id), said)
    older, nobody = Kernel(("landlock", "seccomp", "mounts")), FixedPermissions([])
    async with served(tmp_path, older, None, store=before) as sessions:
        loaded = await sessions.load(session.session_id)
        loaded.attach(nobody)
        await loaded.accept("z = 3").end()
    assert (older.rerun, nobody.questions) == ([["x = 1"]], [])


async def test_another_directory_is_more_rights_in_the_mode_auto(tmp_path: Path) -> None:
    store, kernel, user = MemoryStore(FixedClock()), Kernel(), FixedPermissions([NO])
    (tmp_path / "one" / "sub").mkdir(parents=True)
    (tmp_path / "two").mkdir()
    async with served(tmp_path, kernel, writes("x = 1"), store=store) as sessions:
        session = await sessions.create(str(tmp_path / "one"))
        session.set_mode("auto")
        await turns(session)
    for place, questions in (("one/sub", 0), ("two", 1)):
        async with served(tmp_path, kernel, says("Hello."), store=store) as sessions:
            loaded = await sessions.load(session.session_id, str(tmp_path / place))
            loaded.attach(user)
            await turns(loaded)
            assert len(user.questions) == questions


async def test_the_scratch_directory_is_made_for_the_user_alone_and_goes_with_the_session(tmp_path: Path) -> None:
    store, kernel = MemoryStore(FixedClock()), Kernel()
    async with served(tmp_path, kernel, writes("x = 1"), store=store) as sessions:
        session = await sessions.create(str(tmp_path))
        assert not (tmp_path / "scratch").exists()
        await turns(session)
        (domain,) = kernel.domains
        assert domain is not None
        assert stat.S_IMODE(os.stat(domain.scratch).st_mode) == 0o700
        os.mkdir(f"{domain.scratch}/kept")
    assert kept_in(domain.scratch) == ["kept"]
    async with served(tmp_path, kernel, says("Hello."), store=store) as sessions:
        await sessions.load(session.session_id)
        await sessions.delete(session.session_id)
    assert kept_in(domain.scratch) is None


async def test_a_scratch_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "scratch").write_text("in the way")
    async with served(tmp_path, Kernel(), None) as sessions:
        session = await sessions.create(str(tmp_path))
        with pytest.raises(EnvironmentUnavailableError, match="scratch"):
            await session.cell("1", author="client")
