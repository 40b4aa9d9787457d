"""The engine of one process: its store, its zygote, its sessions, and what is loaded at which stage of start-up.

Embedding programs and adapters begin here. Must not know any protocol.

    host = Host(load_settings(os.environ), os.environ)
    async with host:
        session = await host.sessions.create("/home/me/project")
        end = await session.accept("1 + 1").end()

An editor waits for the answer to its first request, and then for its first session. So the modules in STAGES are loaded
in the order of need, and ahead of need while no one waits. All other modules are ordinary imports of these. The few
imports inside functions name their stage.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from msgspec.structs import replace

from ..context.model import Model
from ..core.clock import Clock, Entropy, SystemClock, SystemEntropy
from ..core.errors import InvalidRequestError, StoreError
from ..core.ids import SessionId
from ..core.programs import ServerProcess, ServerRequest
from ..core.settings import DEFAULT_MODEL, Settings
from ..files.safe_open import keep_out
from ..files.temporary_files import FOLDER, sweep
from ..log.redaction import Redactor
from ..log.secrets import find_secrets, redactor_of
from ..log.store import open_store
from ..log.store_protocol import Store
from ..runtime.environment import Environment, EnvironmentSpec, StartServer
from ..runtime.hardening import find_only_installed_programs, withhold_variables
from ..runtime.zygote import Zygote
from .daemon_threads import on_daemon_thread
from .directories import own_places
from .pages import SERVER, PageAddress, PageServer
from .telemetry import Telemetry, endpoint_variable

if TYPE_CHECKING:
    from ..context.models.providers import ModelSetup
    from ..files.outline.model import Outliner
    from ..runtime.checkpoint_memory import CheckpointMemory
    from ..runtime.picture_decoder import PictureDecoder
    from ..runtime.worker.handles.outlines import Outlines
    from .keys import Keys
    from .model_choice import ConfiguredModels, OwnModel
    from .registry import Sessions

Stage = Literal["answering", "session", "prompt"]

STAGES: Final[dict[Stage, tuple[str, ...]]] = {
    "answering": ("log.event_log", "context.view"),
    "session": (
        "session.registry",
        "session.keys",
        "session.model_choice",
        "log.store.sqlite",
        "log.store.writer",
        "log.store.locks",
        "files.safe_open",
    ),
    "prompt": ("session.serving", "session.reopening", "runtime.worker_environment", "context.models.local"),
}
"""What to load, by stage, in the order of a process's life: before the first request is read, while its answer is on
its way, and while a new session is shown. A provider's library comes last, on a thread (`Host.warm_up`)."""


def load(stage: Stage) -> None:
    """Import the modules of the stage."""
    package = __name__.removesuffix(".session.host")
    for name in STAGES[stage]:
        import_module(f"{package}.{name}")


class Host:
    """The engine of one process. Cheap to make; `async with` it to use its sessions.

    Args:
        settings: see `load_settings`.
        environ: the process's environment: what statements may see of it, and which secrets to hide. If it is
            `os.environ` itself, programs that libraries start do not inherit the secrets.
        zygote: the parent of worker processes, if spawned already. It is best spawned before other imports.
        environments: makes the environment of a session; None for worker processes.
        models: makes the model of a session; None for the model of the settings.
        store: keeps the sessions; None for that of the settings. The host closes it.
        clock: None for the system's.
        entropy: None for the system's.
        start_server: starts the programs of MCP servers; None to start them below the zygote.
        must_have_model: if False, an unknown model in the settings makes prompts fail, not this call.

    Raises:
        InvalidRequestError: there is no such model, or its argument cannot be used.
        EnvironmentUnavailableError: the parent of worker processes did not start.
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
        # A copy, because libraries get another search path.
        self._environ = dict(os.environ) if environ is None or environ is os.environ else environ
        for place in own_places(settings, self._environ):
            keep_out(place)
        # The sandbox hides the state directory by its real path.
        settings = replace(settings, state_dir=Path(os.path.realpath(settings.state_dir)))
        self._settings = settings
        self._redactor = redactor_of(self._environ, settings.hidden_names)
        if environ is os.environ:
            withhold_variables(find_secrets(os.environ, settings.hidden_names).names)
            find_only_installed_programs()
        self._own_model = models
        self._awaited: dict[str, anyio.Event] = {}
        """By the name of a model whose library is loaded: whether a turn waits for it."""
        if models is None and must_have_model and settings.model != DEFAULT_MODEL:
            self._models.make(settings.model)  # so that an unusable model is reported at once
        self._zygote = zygote
        if environments is None:
            self._zygote = zygote or Zygote.spawn()
            environments = self._make_environment
        self._environments = environments
        self._clock = clock or SystemClock()
        self._entropy = entropy or SystemEntropy()
        self._start_server = start_server or (None if self._zygote is None else self._start_below_zygote)
        self._store = store or open_store(settings.state_dir, self._clock, settings.store, settings.tenant)
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup | None = None
        self._sessions: Sessions | None = None
        self._outliner: Outlines | None = None
        self._decoder: PictureDecoder | None = None
        self._listing = anyio.Lock()
        self._page: PageServer | None = None
        self._telemetry: Telemetry | None = None
        if variable := endpoint_variable(self._environ):
            self._telemetry = Telemetry(variable, self._environ, self._clock, self._redactor)

    @cached_property
    def _keys(self) -> Keys:
        from .keys import Keys  # of the session stage; `_redactor` knows the keys in the file already

        return Keys(self._environ, self._redactor.learn)

    @cached_property
    def _models(self) -> OwnModel | ConfiguredModels:
        from .model_choice import ConfiguredModels, OwnModel

        if self._own_model is not None:
            return OwnModel(self._own_model, self._settings)
        return ConfiguredModels(self._settings, self._keys, self._load_ahead)

    @property
    def model_setup(self) -> ModelSetup | None:
        """What a person must do before the model of the settings works; None for nothing."""
        if self._settings.model == DEFAULT_MODEL or self._own_model is not None:
            return None
        return self._models.setup_of(self._settings.model)

    # --- signing in ---------------------------------------------------------------------------------------------------

    @property
    def takes_keys(self) -> bool:
        """Whether keys of providers are used: not for the model of an embedding program."""
        return self._own_model is None

    @property
    def accounts(self) -> Mapping[str, str]:
        """Where the key of each provider comes from, by its name; only those whose key can be used."""
        return self._keys.known

    @property
    def account(self) -> str:
        """The name of the provider whose key the model of the settings uses; "" if it uses none."""
        from ..context.models.providers import key_name  # of the session stage

        kind, _, name = self._settings.model.partition(":")
        return key_name(name.partition(":")[0]) if kind == "provider" else ""

    async def read_keys(self) -> str:
        """Read stored keys that were not read; return why some could not be, or ""."""
        if self.takes_keys and self._keys.is_behind:
            await on_daemon_thread(self._keys.read)
        return self._keys.problem

    def look_for_keys(self) -> None:
        """Begin to read keys that were stored since they were read, if there are any. Only inside `async with`."""
        if self.takes_keys and self._keys.is_behind:
            self._keys_changed()

    async def sign_in(self) -> str:
        """Read the environment, the file of keys and the keyring; return what is missing as a sentence, or "".

        The models of providers with new keys are then offered in all sessions.
        """
        from .keys import missing_keys  # of the session stage

        await on_daemon_thread(partial(self._keys.read, everywhere=True))
        self._keys_changed()
        setup = self._models.setup_of(self._settings.model, is_read=True) if self.takes_keys else None
        missing = missing_keys(self._keys) if setup is None else "" if setup.is_done else setup.sentence
        return " ".join(filter(None, (missing, self._keys.problem))) if missing else ""

    async def sign_out(self) -> None:
        """Remove all keys that the user stored; the next model call of any session fails without one.

        Keys of the environment stay. Raises KeyringError, InvalidRequestError if some cannot be removed.
        """
        try:
            await anyio.to_thread.run_sync(self._keys.forget)
        finally:
            self._keys_changed()

    def _keys_changed(self) -> None:
        if self._sessions is not None and self.takes_keys:
            assert self._tasks is not None
            self._sessions.offer_models()
            self._tasks.start_soon(self._list_models)

    # --- life ---------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Open the store, and remove leftovers of killed writers, on a thread."""
        if self._zygote is not None:
            self._stack.callback(self._zygote.close)
            self._stack.callback(lambda: None if self._outliner is None else self._outliner.close())
            self._stack.callback(lambda: None if self._decoder is None else self._decoder.close())
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._tasks.start_soon(anyio.to_thread.run_sync, self._look_at_disk)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel what runs, close every session, and free the store and all processes."""
        assert self._tasks is not None
        try:
            with anyio.CancelScope(shield=True):
                if self._sessions is not None:
                    await self._sessions.close_all()
                await anyio.to_thread.run_sync(self._store.close)
                if self._telemetry is not None:
                    await self._telemetry.close()
        finally:
            self._tasks.cancel_scope.cancel()
            await self._stack.__aexit__(kind, error, trace)

    def prepare(self, stage: Stage) -> None:
        """Load what a later stage needs, ahead of need. Blocks while it imports."""
        if stage == "prompt" and self._zygote is not None:
            self._zygote.warm_up()
        load(stage)

    @property
    def redactor(self) -> Redactor:
        """Removes the secrets of the environment from texts that are shown outside of sessions."""
        return self._redactor

    def warm_up(self) -> None:
        """Start loading what the model's first reply needs, and asking providers for their models.

        Only inside `async with`. It loads on a thread, step by step. No step starts while a session serves a request,
        because that would slow the turn, unless the turn waits for this library. A request that comes during a step (at
        most 0.5 s) runs beside it. A reply that needs a missing module loads it first.
        """
        assert self._tasks is not None
        if self._own_model is None:
            self._load_ahead(self._settings.model)
            self._tasks.start_soon(self._list_models)

    def _load_ahead(self, model: str, is_awaited: bool = False) -> None:
        assert self._tasks is not None
        if model not in self._awaited:
            self._awaited[model] = anyio.Event()
            self._tasks.start_soon(self._warm_up, model, self._awaited[model])
        if is_awaited:
            self._awaited[model].set()

    async def _warm_up(self, model: str, awaited: anyio.Event) -> None:
        from ..context.models import loading_steps  # of the prompt stage

        with suppress(InvalidRequestError):  # which each reply of the model reports
            for step in loading_steps(model):
                await _first(self.sessions.idle, awaited.wait)
                await on_daemon_thread(step)

    async def _list_models(self) -> None:
        changed: list[bool] = []

        def ask() -> None:
            if self._keys.is_behind:
                self._keys.read()
                changed.append(True)
            changed.append(self._models.refresh())

        async with self._listing:  # so that a second one finds the first one's answers
            await on_daemon_thread(ask)
        if any(changed):
            self.sessions.offer_models()

    # --- sessions -----------------------------------------------------------------------------------------------------

    @property
    def sessions(self) -> Sessions:
        """The sessions of this process. Only inside `async with`."""
        if self._sessions is None:
            self._sessions = self._make_sessions()
        return self._sessions

    def _make_sessions(self) -> Sessions:
        from .registry import open_sessions  # of the session stage

        assert self._tasks is not None
        return open_sessions(
            store=self._store,
            settings=self._settings,
            environments=self._environments,
            outliner=None if self._zygote is None else self._outlines,
            decoder=None if self._zygote is None else self._pictures,
            start_server=self._start_server,
            models=self._models,
            clock=self._clock,
            entropy=self._entropy,
            environ=self._environ,
            redactor=self._redactor,
            tasks=self._tasks,
            open_page=self._open_page,
            telemetry=self._telemetry,
        )

    async def _open_page(self, session_id: SessionId) -> PageAddress:
        """Start the server of the page in this process, unless it runs; return the addresses of a session's page."""
        if self._page is None:
            assert self._tasks is not None

            def load_server() -> None:
                import_module(SERVER)  # with the first `/page`: see `pages`

            await on_daemon_thread(load_server)
            if self._page is None:
                self._page = import_module(SERVER).start(self, self._store, self._redactor, self._tasks)
        assert self._page is not None
        return self._page.addresses(session_id)

    def _make_environment(self) -> Environment:
        """Make a session's environment; its worker starts later."""
        from ..runtime.worker_environment import WorkerEnvironment  # of the prompt stage

        assert self._zygote is not None
        return WorkerEnvironment(self._zygote, self._checkpoint_memory)

    @cached_property
    def _checkpoint_memory(self) -> CheckpointMemory:
        from ..runtime.checkpoint_memory import CheckpointMemory  # of the prompt stage

        return CheckpointMemory(self._settings.checkpoint_bytes)

    def _outlines(self) -> Outliner:
        """Return the outliner of all sessions of this process, which needs the zygote."""
        from ..runtime.worker.handles.outlines import Outlines  # of the first overview

        if self._outliner is None:
            assert self._zygote is not None
            self._outliner = Outlines(self._zygote.ask_outlines)
        return self._outliner

    def _pictures(self) -> PictureDecoder:
        """Return the decoder of all sessions of this process, which needs the zygote."""
        from ..runtime.picture_decoder import PictureDecoder  # of the first picture

        if self._decoder is None:
            assert self._zygote is not None
            self._decoder = PictureDecoder(self._zygote.ask_outlines)
        return self._decoder

    def _start_below_zygote(self, spec: EnvironmentSpec, request: ServerRequest) -> ServerProcess:
        from ..runtime.server_program import ServerProgram  # of the first server

        assert self._zygote is not None
        return ServerProgram.start(self._zygote, spec, request)

    def _look_at_disk(self) -> None:
        # A store that cannot be opened is reported when a session is requested.
        with suppress(StoreError):
            self._store.rows(limit=1)

        sweep(str(self._settings.state_dir / FOLDER))


async def _first(*waits: Callable[[], Awaitable[object]]) -> None:
    """Wait until one of them has ended."""

    async def run(wait: Callable[[], Awaitable[object]]) -> None:
        await wait()
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for wait in waits:
            tasks.start_soon(run, wait)
