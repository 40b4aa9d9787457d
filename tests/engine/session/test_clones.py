"""Sessions in clones of a git repository: made, made again with what the log has, and removed."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine import Sessions, Settings
from engine.core.clock import SystemClock
from engine.core.errors import InvalidRequestError
from engine.core.execution import DIRECTORY
from engine.core.ids import BlobDigest, ExecutionId, SessionId, ToolCallId
from engine.core.repositories import Repository
from engine.log.events import Event
from engine.log.events.conversation import AgentText
from engine.log.events.execution import FileWritten
from engine.log.events.session import OthersWrote, WorkspaceCloned
from engine.log.store.memory import MemoryStore
from engine.session import clones as module
from engine.session.clones import CHANGEABLE, OTHERS, Clones, clone_lines, sweep_clones
from engine.session.git_clone import EMPTY, NO_COMMIT
from tests.support.git_origins import Origin, git, state_of
from tests.support.sessions import events_of, in_process, sessions_of, value_of

pytestmark = pytest.mark.anyio
EDITS = ("w = write('a.txt', 'two\\n')", "w = write('new/c.txt', 'new\\n')", "w = write('a.txt', 'three\\n')")
OF_ALL_KINDS = (
    "w = write('a.txt', 'two\\n')",
    "w = write('new/c.txt', 'new\\n')",
    "import os; os.remove('gone.txt')",
    "os.chmod('run.sh', 0o755)",
    "os.symlink('a.txt', 'link')",
    "w = write('a.txt', 'three\\n')",
    "os.chmod('a.txt', 0o755)",
)


class World:
    """A repository, a directory for clones, a store and a state directory."""

    def __init__(self, folder: Path, template: Origin) -> None:
        self.origin = Origin(folder / "origin", template)
        self.place = folder / "work"
        self.store = MemoryStore(SystemClock())
        self.state = folder / "state"

    @property
    def repository(self) -> Repository:
        return Repository(str(self.place), str(self.origin.path))

    @property
    def settings(self) -> Settings:
        return Settings(state_dir=self.state, workspaces=(self.repository,))

    @asynccontextmanager
    async def sessions(self, *, workers: bool = False, **environ: str) -> AsyncIterator[Sessions]:
        settings: dict[str, object] = {"workspaces": (self.repository,)}
        environments = None if workers else in_process
        async with sessions_of(
            self.state, self.store, environments=environments, settings=settings, **environ
        ) as found:
            yield found

    def clones(self) -> list[str]:
        return sorted(os.listdir(self.place)) if self.place.exists() else []


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Origin:
    return Origin(tmp_path_factory.mktemp("origins") / "one")


@pytest.fixture
def world(tmp_path: Path, template: Origin) -> World:
    return World(tmp_path, template)


def cloned(events: Sequence[Event]) -> list[WorkspaceCloned]:
    return [event for event in events if isinstance(event, WorkspaceCloned)]


async def edited(world: World, edits: Sequence[str] = EDITS, *, workers: bool = False) -> tuple[SessionId, Path]:
    """A session that made these edits and is closed, and its clone."""
    async with world.sessions(workers=workers) as sessions:
        session = await sessions.create(str(world.place))
        for source in edits:
            assert (await session.cell(source)).status == "ok", source
        return session.session_id, Path(session.cwd)


async def test_each_session_has_a_clone_at_a_commit(world: World) -> None:
    async with world.sessions() as sessions:
        one, other = [await sessions.create(str(world.place)) for _ in range(2)]
        assert world.clones() == sorted((one.session_id, other.session_id))
        await one.cell("w = write('a.txt', 'two')")
        assert await value_of(other, "read('a.txt')") == "'one\\n'"
        (event,) = events_of(one, WorkspaceCloned)
        assert (event.commit, event.branch, event.again) == (world.origin.commit, "main", False)
        assert event.directory == one.cwd == str(world.place / one.session_id)
        assert state_of(Path(other.cwd))[0] == ""
        rows = await sessions.rows(cwd=f"{world.place}/")
        assert {row.session_id for row in rows} == {one.session_id, other.session_id}


async def test_a_branch_of_the_setting_is_checked_out(world: World) -> None:
    world.origin.push({"a.txt": "old\n"}, branch="v1")
    world.origin.push({"a.txt": "newest\n"})
    repository = Repository(str(world.place), str(world.origin.path), "v1")
    clones = Clones(Settings(state_dir=world.state, workspaces=(repository,)), {})
    event = clones.provide(SessionId("ses_1"), clones.directory(SessionId("ses_1"), str(world.place)))
    assert event is not None
    assert event.branch == "v1"
    assert (world.place / "ses_1" / "a.txt").read_text() == "old\n"
    clones.close(SessionId("ses_1"))


async def test_a_lost_clone_is_made_again_with_its_edits(world: World) -> None:
    session_id, clone = await edited(world, OF_ALL_KINDS, workers=True)
    before = state_of(clone)
    assert "new/c.txt" in before[1]
    assert "old mode 100644" in before[0]
    shutil.rmtree(world.place)
    world.origin.push({"a.txt": "changed by others\n"})
    async with world.sessions(workers=True) as sessions:
        session = await sessions.load(session_id, str(world.place))
        assert state_of(clone) == before
        assert os.readlink(clone / "link") == "a.txt"
        assert session.cwd == str(clone)
        event = events_of(session, WorkspaceCloned)[-1]
        assert (event.again, event.commit, event.files, event.left) == (True, world.origin.commit, 5, ())
        assert await value_of(session, "w.path, read('a.txt')") is not None
        await session.accept("1").end()
        told = [each.text for each in session.events if isinstance(each, AgentText)]
        assert any(line in text for text in told for line in clone_lines(event, session.events)[:1]), told
        assert len(clone_lines(event, session.events)) == 2


async def test_a_clone_that_is_there_stays_as_it_is(world: World) -> None:
    session_id, clone = await edited(world)
    (clone / "a.txt").write_text("changed by somebody\n")
    git("checkout", "--quiet", "-b", "theirs", at=clone)
    before = state_of(clone)
    async with world.sessions() as sessions:
        session = await sessions.load(session_id, str(clone))
        assert state_of(clone) == before
        assert len(events_of(session, WorkspaceCloned)) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another account")
async def test_a_clone_of_another_account_is_refused(world: World) -> None:
    session_id, clone = await edited(world, ())
    os.chown(clone, 1, -1)
    async with world.sessions() as sessions:
        with pytest.raises(InvalidRequestError) as refused:
            await sessions.load(session_id)
        assert str(refused.value) == OTHERS.format(clone)
        os.chown(clone, 0, -1)
        await sessions.load(session_id)


async def test_a_directory_that_another_account_may_change_has_no_clones(world: World) -> None:
    session_id, _ = await edited(world, ())
    async with world.sessions() as sessions:

        async def refusal() -> str:
            with pytest.raises(InvalidRequestError) as refused:
                await sessions.load(session_id)
            return str(refused.value)

        for place, mode in ((world.place, 0o757), (world.place.parent, 0o777)):
            place.chmod(mode)
            assert await refusal() == CHANGEABLE.format(world.place, place)
            place.chmod(0o1777)
        if os.geteuid() == 0:
            os.chown(world.place, 1, -1)
            assert await refusal() == CHANGEABLE.format(world.place, world.place)
            os.chown(world.place, 0, -1)
        await sessions.load(session_id)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link to another account")
def test_a_link_of_another_account_leads_to_no_clones(world: World) -> None:
    link = world.place.with_name("link")
    clones = Clones(replace(world.settings, workspaces=(replace(world.repository, directory=str(link)),)), {})
    made = world.place.with_name("made")
    made.mkdir()
    link.symlink_to("made")
    for path, account, mode in ((link, 1, 0o755), (made, 0, 0o777)):
        os.chown(path, account, -1, follow_symlinks=False)
        made.chmod(mode)
        with pytest.raises(InvalidRequestError) as refused:
            clones.provide(SessionId("ses_1"), f"{link}/ses_1")
        assert str(refused.value) == CHANGEABLE.format(link, path)
        os.chown(path, 0, -1, follow_symlinks=False)
    made.chmod(0o755)
    assert clones.provide(SessionId("ses_1"), f"{link}/ses_1") is not None
    clones.close(SessionId("ses_1"))


async def test_a_fork_has_its_own_clone_with_the_edits(world: World) -> None:
    session_id, clone = await edited(world)
    shutil.rmtree(clone)
    async with world.sessions() as sessions:
        fork = await sessions.fork(session_id, str(clone))
        assert fork.cwd == str(world.place / fork.session_id)
        assert (Path(fork.cwd) / "a.txt").read_text() == "three\n"
        assert (Path(fork.cwd) / "new" / "c.txt").exists()
        await fork.cell("w = write('a.txt', 'of the fork')")
        before, forked = state_of(Path(fork.cwd)), fork.session_id
    shutil.rmtree(world.place)
    async with world.sessions() as sessions:
        again = await sessions.load(forked)
        assert state_of(Path(again.cwd)) == before


async def test_a_repository_that_is_gone_is_named_and_leaves_nothing(world: World) -> None:
    session_id, clone = await edited(world)
    shutil.rmtree(clone)
    away = world.origin.path.rename(world.origin.path.with_name("away.git"))
    async with world.sessions() as sessions:
        with pytest.raises(InvalidRequestError, match=r"cannot clone \S+/origin.git: .*does not"):
            await sessions.create(str(world.place))
        with pytest.raises(InvalidRequestError, match=f"for session {session_id} again: .*; load it with another cwd"):
            await sessions.load(session_id)
        assert world.clones() == []
        away.rename(world.origin.path)
        session = await sessions.load(session_id)
        assert await value_of(session, "read('a.txt')") == "'three\\n'"


async def test_a_commit_without_a_branch_is_fetched(world: World) -> None:
    session_id, clone = await edited(world)
    shutil.rmtree(clone)
    world.origin.push({"a.txt": "rewritten\n"}, "--amend")
    async with world.sessions() as sessions:
        session = await sessions.load(session_id)
        assert git("rev-parse", "HEAD", at=Path(session.cwd)) == world.origin.commit


@pytest.mark.parametrize("is_shallow", [False, True])
async def test_a_commit_that_is_gone_is_named(world: World, tmp_path: Path, is_shallow: bool) -> None:
    session_id, clone = await edited(world)
    shutil.rmtree(clone)
    if is_shallow:
        world.origin.push({"a.txt": "next\n"})
        shallow = tmp_path / "shallow.git"
        git("clone", "--quiet", "--bare", "--depth=1", f"file://{world.origin.path}", str(shallow), at=tmp_path)
        shutil.rmtree(world.origin.path)
        shallow.rename(world.origin.path)
    else:
        world.origin.push({"a.txt": "rewritten\n"}, "--amend")
        world.origin.forget()
    async with world.sessions() as sessions:
        with pytest.raises(InvalidRequestError) as refused:
            await sessions.load(session_id)
        assert NO_COMMIT.format(world.origin.commit[:12]) in str(refused.value)
        assert world.clones() == []
        elsewhere = await sessions.load(session_id, str(tmp_path))
        assert elsewhere.cwd == str(tmp_path)


async def test_a_full_disk_leaves_nothing_and_the_next_load_works(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id, clone = await edited(world)
    before = state_of(clone)
    shutil.rmtree(clone)

    def full(*_: object) -> bool:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with world.sessions() as sessions:
        with monkeypatch.context() as patched:
            patched.setattr(module, "put_back", full)
            with pytest.raises(InvalidRequestError, match="again: No space left on device; load"):
                await sessions.load(session_id)
        assert world.clones() == []
        await sessions.load(session_id)
        assert state_of(clone) == before


async def test_no_hook_and_no_other_repository_of_the_environment_is_used(world: World, tmp_path: Path) -> None:
    hooks, other = tmp_path / "hooks", Origin(tmp_path / "other", world.origin)
    hooks.mkdir()
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (hooks / name).chmod(0o755)
    configuration = tmp_path / "gitconfig"
    configuration.write_text(f"[core]\n\thooksPath = {hooks}\n[init]\n\ttemplateDir = {hooks}\n")
    environ = {"GIT_CONFIG_GLOBAL": str(configuration), "GIT_DIR": str(other.path), "GIT_WORK_TREE": str(other.copy)}
    async with world.sessions(PATH=os.environ["PATH"], **environ) as sessions:
        session = await sessions.create(str(world.place))
        assert git("rev-parse", "HEAD", at=Path(session.cwd)) == world.origin.commit
        assert not (Path(session.cwd) / ".git" / "post-checkout").exists()
    assert not (tmp_path / "ran").exists()


async def test_programs_in_the_configuration_of_git_get_no_keys(world: World, tmp_path: Path) -> None:
    world.origin.push({".gitattributes": "*.txt filter=x\n"})
    configuration = tmp_path / "gitconfig"
    configuration.write_text(f'[filter "x"]\n\tsmudge = "env > {tmp_path}/got; cat"\n')
    keys = {"OPENAI_API_KEY": "sk-4711", "PGPASSWORD": "pw-4711", "ANYTHING": "any-4711"}
    named = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": str(configuration), "SSH_AUTH_SOCK": "/agent"}
    async with world.sessions(**named, **keys) as sessions:
        await sessions.create(str(world.place))
    got = (tmp_path / "got").read_text()
    assert "4711" not in got
    assert "SSH_AUTH_SOCK=/agent" in got


async def test_an_empty_repository_is_refused(world: World) -> None:
    shutil.rmtree(world.origin.path)
    world.origin.path.mkdir()
    git("init", "--quiet", "--bare", at=world.origin.path)
    async with world.sessions() as sessions:
        with pytest.raises(InvalidRequestError, match=EMPTY):
            await sessions.create(str(world.place))


# --- logs that name anything ------------------------------------------------------------------------------------------


def wrote(path: Path | str, content: BlobDigest | None, digest: str = "x") -> FileWritten:
    return FileWritten(
        execution_id=ExecutionId("e"),
        tool_call_id=ToolCallId("c"),
        path=str(path),
        after=content,
        after_digest=digest,
    )


def test_what_cannot_be_put_back_is_named(world: World, tmp_path: Path) -> None:
    clone = world.place / "ses_1"
    content = world.store.blob_put(b"new")
    here = WorkspaceCloned(address=world.repository.address, commit=world.origin.commit, directory=str(clone))
    history = (
        *(here, wrote(clone / "kept.txt", content), wrote(clone / "secret.txt", None)),
        *(wrote(clone / ".git" / "hooks" / "post-commit", content), wrote(tmp_path / "outside.txt", content)),
        *(wrote(clone / "a.txt" / "below", content), wrote(clone, content), wrote(world.state / "own", content)),
    )
    clones = Clones(world.settings, {})
    event = clones.provide(SessionId("ses_1"), str(clone), history, world.store.blob_get)
    clones.close(SessionId("ses_1"))
    assert event is not None
    left = {os.path.relpath(path, clone) for path in event.left}
    assert left == {"secret.txt", ".git/hooks/post-commit", "../../outside.txt", "a.txt/below", "."}
    assert (clone / "kept.txt").read_text() == "new"
    assert not (clone / ".git" / "hooks" / "post-commit").exists()
    assert not (tmp_path / "outside.txt").exists()
    assert "secret.txt" in clone_lines(event)[1]


def provided(world: World, history: Sequence[Event]) -> WorkspaceCloned:
    clones = Clones(world.settings, {})
    event = clones.provide(SessionId("ses_1"), str(world.place / "ses_1"), history, world.store.blob_get)
    clones.close(SessionId("ses_1"))
    assert event is not None
    return event


def at_commit(world: World, commit: str) -> WorkspaceCloned:
    return WorkspaceCloned(address=world.repository.address, commit=commit, directory=str(world.place / "ses_1"))


def test_nothing_of_an_imported_log_is_put_back(world: World) -> None:
    clone = world.place / "ses_1"
    content = world.store.blob_put(b"new")
    here = at_commit(world, world.origin.commit)
    theirs = (here, wrote(clone / "theirs.txt", content), OthersWrote(by="import"))
    assert provided(world, (*theirs, here, wrote(clone / "b", content))).files == 1
    assert not (clone / "theirs.txt").exists()


def test_an_imported_log_does_not_choose_the_commit(world: World) -> None:
    strange = world.origin.push({".envrc": "echo\n"}, branch="proposal")
    event = provided(world, (at_commit(world, strange), OthersWrote(by="import")))
    assert (event.commit, event.again) == (world.origin.commit, False)
    assert not (world.place / "ses_1" / ".envrc").exists()


def test_directories_of_an_imported_log_are_no_clones_of_the_session(world: World, tmp_path: Path) -> None:
    content = world.store.blob_put(b"new")
    here = at_commit(world, world.origin.commit)
    other = WorkspaceCloned(address=here.address, commit=here.commit, directory=str(tmp_path / "other"))
    event = provided(world, (other, OthersWrote(by="import"), here, wrote(tmp_path / "other" / "sub" / "x", content)))
    assert event.left == (str(tmp_path / "other" / "sub" / "x"),)
    assert not (world.place / "ses_1" / "sub").exists()


@pytest.mark.parametrize("last", ["HEAD", "config", "objects", "refs"])
def test_nothing_that_is_put_back_completes_a_repository(world: World, last: str) -> None:
    clone = world.place / "ses_1"
    content = world.store.blob_put(b"[core]\n\tfsmonitor = touch PWNED\n")
    names = [name for name in ("HEAD", "config", "objects", "refs") if name != last]
    made = [
        wrote(clone / "p" / name, *((None, DIRECTORY) if name in ("objects", "refs") else (content,)))
        for name in (*names, last)
    ]
    event = provided(world, (at_commit(world, world.origin.commit), *made, wrote(clone / "p" / "other", content)))
    there = {path.name for path in (clone / "p").iterdir()}
    assert "other" in there
    assert not {"HEAD", "objects", "refs"} <= there
    assert len(event.left) == 1
    assert "other programs would run them" in clone_lines(event)[1]


@pytest.mark.parametrize("made", ["sub", "sub/config", "sub/hooks/post-commit", "deep/sub/config", ".GIT/config"])
def test_nothing_is_put_back_through_a_link_of_the_repository(world: World, made: str) -> None:
    (world.origin.copy / "sub").symlink_to(".git")
    (world.origin.copy / "deep" / "sub").symlink_to("../.git")
    commit = world.origin.push({"other.txt": "one\n"})
    clone = world.place / "ses_1"
    content = world.store.blob_put(b"[core]\n\tfsmonitor = false\n")
    place = clone / made
    event = provided(world, (at_commit(world, commit), wrote(place, content)))
    assert str(place) in event.left or not (place.parent / place.name).is_symlink()
    assert "fsmonitor" not in (clone / ".git" / "config").read_text()
    assert not (clone / ".git" / "hooks" / "post-commit").exists()


def test_a_directory_is_put_back_in_place_of_a_link_of_the_repository(world: World) -> None:
    (world.origin.copy / "sub").symlink_to(".git")
    commit = world.origin.push({"other.txt": "one\n"})
    clone = world.place / "ses_1"
    content = world.store.blob_put(b"new")
    history = (
        at_commit(world, commit),
        wrote(clone / "sub", None, DIRECTORY),
        wrote(clone / "sub" / "config", content),
    )
    assert provided(world, history).left == ()
    assert (clone / "sub" / "config").read_bytes() == b"new"
    assert not (clone / "sub").is_symlink()
    assert (clone / ".git" / "config").read_text() != "new"


def test_only_repositories_of_the_setting_are_cloned(world: World) -> None:
    other = world.place.with_name("other") / "ses_1"
    here = WorkspaceCloned(address=str(world.origin.path), commit=world.origin.commit, directory=str(other))
    clones = Clones(world.settings, {})
    assert clones.provide(SessionId("ses_1"), str(other), (here,), world.store.blob_get) is None
    assert not other.exists()


# --- removal ----------------------------------------------------------------------------------------------------------


async def test_deleting_a_session_removes_its_clone(world: World) -> None:
    async with world.sessions() as sessions:
        one, other = [await sessions.create(str(world.place)) for _ in range(2)]
        await sessions.delete(one.session_id)
        assert world.clones() == [other.session_id]


async def test_clones_of_sessions_that_are_gone_are_swept(world: World) -> None:
    gone, _ = await edited(world, ())
    kept, _ = await edited(world, ())
    (world.place / "somebody's").mkdir()
    async with world.sessions() as sessions:
        used = (await sessions.create(str(world.place))).session_id
        world.store.delete(gone)
        elsewhere = Settings(state_dir=world.state, workspaces=(world.repository,), store="postgresql://u@h/d")
        assert sweep_clones(elsewhere, {}, set) == 0
        assert sweep_clones(world.settings, {"PGDATABASE": "other"}, set) == 0
        assert sweep_clones(world.settings, {}, lambda: {kept}) == 1
        assert world.clones() == sorted((kept, used, "somebody's"))
    assert sweep_clones(world.settings, {}, lambda: {kept}) == 1
    assert world.clones() == sorted((kept, "somebody's"))
