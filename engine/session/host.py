"""The engine of one process: opens the store, the zygote and the sessions that the settings ask for, and closes them.

What adapters and embedding programs begin with. Owns what is shared by all sessions, and which of it is loaded when
(`session.stages`). Must not know any protocol.

    host = Host(load_settings(os.environ), os.environ)
    async with host:
        session = await host.sessions.create("/home/me/project")
        end = await session.accept("1 + 1").end()
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from msgspec.structs import replace

from ..context.model import Model
from ..core.clock import Clock, Entropy, SystemClock, SystemEntropy
from ..core.errors import InvalidRequestError, StoreError
from ..core.programs import ServerProcess, ServerRequest
from ..core.settings import DEFAULT_MODEL, Settings
from ..files.safe_open import keep_out
from ..files.temporary_files import FOLDER, sweep
from ..log.redaction import Redactor
from ..log.secrets import redactor_of
from ..log.store import open_store
from ..log.store_protocol import Store
from ..runtime.environment import Environment, EnvironmentSpec, StartServer
from ..runtime.zygote import Zygote
from . import stages

if TYPE_CHECKING:  # of later stages
    from ..context.models.providers import ModelSetup
    from ..files.outline.model import Outliner
    from ..runtime.worker.handles.outlines import Outlines
    from .lifecycle.registry import Sessions


class Host:
    """The engine of one process. Made early and cheaply; `async with` it to use its sessions.

    Args:
        settings: see `load_settings`.
        environ: the process's environment: what statements may see of it, and which secrets to take out of texts.
        zygote: the parent of worker processes, where it was spawned already: best before anything else is imported.
        environments: makes the environment of a session; worker processes where None.
        models: makes the model of a session; what the settings name where None.
        store: where sessions are kept; the default kind in the settings' directory where None. Closed by the host.
        clock: the system's where None.
        entropy: the system's where None.
        start_server: starts the programs of MCP servers; below the zygote where None.
        must_have_model: False has prompts fail where there is no such model as the settings name, and not this.

    Raises:
        InvalidRequestError: there is no such model, or its argument cannot be used.
        EnvironmentUnavailableError: the worker processes' parent could not be started.
    """

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str] | None = None,
        *,
        zygote: Zygote | None = None,
        environments: Callable[[], Environment] | None = None,
        models: Callable[[], Model] | None = None,
        store: Store | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        start_server: StartServer | None = None,
        must_have_model: bool = True,
    ) -> None:
        keep_out(settings.state_dir)
        # What is hidden from statements is hidden by its real place.
        settings = replace(settings, state_dir=Path(os.path.realpath(settings.state_dir)))
        self._settings = settings
        self._environ = os.environ if environ is None else environ
        self._redactor = redactor_of(self._environ, settings.hidden_names)
        self._setup: ModelSetup | None = None
        self._models = models or self._model_of_settings
        self._named_model = settings.model if models is None else None
        if models is None and settings.model != DEFAULT_MODEL:
            self._check_model(must_have_model)  # so that one that cannot be used is said at once
        self._zygote = zygote
        if environments is None:
            self._zygote = zygote or Zygote.spawn()
            environments = self._make_environment
        self._environments = environments
        self._clock = clock or SystemClock()
        self._entropy = entropy or SystemEntropy()
        self._start_server = start_server or (None if self._zygote is None else self._start_below_zygote)
        self._store = store or open_store(settings.state_dir, self._clock)
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup | None = None
        self._sessions: Sessions | None = None
        self._outliner: Outlines | None = None

    def _check_model(self, must_be_there: bool) -> None:
        try:
            self._models()
        except InvalidRequestError as error:
            if must_be_there:
                raise
            from ..context.models.local import UnusableModel
            from ..context.models.providers import unusable  # of the prompt stage

            setup, name = unusable(str(error)), self._settings.model
            self._setup = setup
            self._models = lambda: UnusableModel(name, setup.sentence)
            self._named_model = None

    @property
    def model_setup(self) -> ModelSetup | None:
        """What a person has to do before the model of the settings can be used; None where there is nothing."""
        if self._setup is None and self._settings.model != DEFAULT_MODEL:
            from ..context.models.providers import setup_of  # only where a model is configured

            self._setup = setup_of(self._settings.model, self._environ)
        return self._setup

    # --- life ---------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Begins to open the store and removes what killed writers left, on a thread, because the disk takes time."""
        if self._zygote is not None:
            self._stack.callback(self._zygote.close)
            self._stack.callback(lambda: None if self._outliner is None else self._outliner.close())
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._tasks.start_soon(anyio.to_thread.run_sync, self._look_at_disk)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancels what runs, closes every session, and frees the store and all processes."""
        assert self._tasks is not None
        try:
            with anyio.CancelScope(shield=True):
                if self._sessions is not None:
                    await self._sessions.close_all()
                await anyio.to_thread.run_sync(self._store.close)
        finally:
            self._tasks.cancel_scope.cancel()
            await self._stack.__aexit__(kind, error, trace)

    def prepare(self, stage: stages.Stage) -> None:
        """Loads what a later stage needs, ahead of need; blocks for as long as the imports take."""
        if stage == "prompt" and self._zygote is not None:
            self._zygote.warm_up()
        stages.load(stage)

    @property
    def redactor(self) -> Redactor:
        """What takes the secrets of the environment out of a text, for all that is shown beside sessions."""
        return self._redactor

    def warm_up(self) -> None:
        """Begins to load what the first reply of the settings' model needs; inside `async with` only.

        On a thread, and no step of it begins while a session carries out a request: a turn would be slower for it. A
        request that comes while a step is under way (at most some 0.5 s) runs beside it; a reply that needs what is
        missing loads it first.
        """
        assert self._tasks is not None
        if self._named_model is not None:
            self._tasks.start_soon(self._warm_up, self._named_model)

    async def _warm_up(self, model: str) -> None:
        from ..context.models import loading_steps  # of the prompt stage

        for step in loading_steps(model):
            await self.sessions.idle()
            await _on_daemon_thread(step)

    # --- sessions -----------------------------------------------------------------------------------------------------

    @property
    def sessions(self) -> Sessions:
        """The sessions of this process; inside `async with` only."""
        if self._sessions is None:
            self._sessions = self._make_sessions()
        return self._sessions

    def _make_sessions(self) -> Sessions:
        from .lifecycle.registry import open_sessions  # of the session stage

        assert self._tasks is not None
        return open_sessions(
            store=self._store,
            settings=self._settings,
            environments=self._environments,
            outliner=None if self._zygote is None else self._outlines,
            start_server=self._start_server,
            models=self._models,
            clock=self._clock,
            entropy=self._entropy,
            environ=self._environ,
            redactor=self._redactor,
            tasks=self._tasks,
        )

    def _make_environment(self) -> Environment:
        """Make a session's environment; its worker starts later."""
        from ..runtime.worker_environment import WorkerEnvironment  # of the prompt stage

        assert self._zygote is not None
        return WorkerEnvironment(self._zygote)

    def _outlines(self) -> Outliner:
        """Who makes outlines for all sessions of this process; for whoever has a zygote."""
        from ..runtime.worker.handles.outlines import Outlines  # of the first overview

        if self._outliner is None:
            assert self._zygote is not None
            self._outliner = Outlines(self._zygote.ask_outlines)
        return self._outliner

    def _start_below_zygote(self, spec: EnvironmentSpec, request: ServerRequest) -> ServerProcess:
        from ..runtime.server_program import ServerProgram  # of the first server

        assert self._zygote is not None
        return ServerProgram.start(self._zygote, spec, request)

    def _look_at_disk(self) -> None:
        # A store that cannot be opened is told to whoever asks for a session.
        with suppress(StoreError):
            self._store.rows(limit=1)

        sweep(str(self._settings.state_dir / FOLDER))

    def _model_of_settings(self) -> Model:
        from ..context.models import make_model  # of the prompt stage

        return make_model(self._settings.model)


async def _on_daemon_thread(step: Callable[[], None]) -> None:
    """Performs the step on a thread that keeps no process alive: at its end nobody waits for what nobody needs."""
    loop, done = asyncio.get_running_loop(), anyio.Event()

    def perform() -> None:
        step()
        with suppress(RuntimeError):  # because the loop may be closed by now
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=perform, name="rewindow-loading", daemon=True).start()
    await done.wait()
