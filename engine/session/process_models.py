"""The models of one process: those that its settings and its providers name, or the one of an embedding program.

Made by `Host`, for the first session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from ..context.model import Model, ModelUnusableError, Patience
from ..context.models import make_model
from ..context.models.catalog import Catalog
from ..context.models.local import UnusableModel
from ..context.models.providers import ModelSetup, key_name, setup_of, unusable
from ..core.errors import InvalidRequestError
from ..core.settings import DEFAULT_MODEL, Settings
from .daemon_threads import on_daemon_thread
from .keys import Keys


class OwnModel:
    """The model of an embedding program, which cannot be changed. `make` makes a session's."""

    default = ""

    def __init__(self, make: Callable[[], Model], settings: Settings) -> None:
        self._make = make
        self._settings = settings

    def setup_of(self, _spec: str, *, is_read: bool = False) -> None:
        """Return None: nothing is known about it."""

    def make(self, _spec: str) -> Model:
        return self._make()

    def unusable(self, spec: str, reason: str) -> Model:
        raise InvalidRequestError(f"{spec}: {reason}")

    def offered(self) -> Sequence[tuple[str, str]]:
        return ()

    def window(self, _spec: str) -> int | None:
        return None

    def refresh(self) -> bool:
        """Return False: there is no provider to ask."""
        return False

    def calls_tools(self, _spec: str) -> bool:
        return self._settings.calls_tools(self._settings.model)

    def takes_pictures(self, _spec: str) -> bool:
        return self._settings.takes_pictures(self._settings.model)

    def chosen(self, spec: str, *, is_awaited: bool = False) -> None:
        """Do nothing."""

    async def ready(self, spec: str) -> None:
        """Do nothing: it needs no key."""


class ConfiguredModels:
    """The models that the settings name, and those of each provider with a key.

    Args:
        keys: the environment with the stored keys.
        on_choice: called with the name of each model that a session will call, and whether a turn waits for that.
    """

    def __init__(self, settings: Settings, keys: Keys, on_choice: Callable[[str, bool], None]) -> None:
        self.default = settings.model
        self._settings = settings
        self._keys = keys
        self._on_choice = on_choice
        self._catalog: Catalog | None = None

    @property
    def catalog(self) -> Catalog:
        """What can be chosen."""
        if self._catalog is None:
            names = (self.default, *self._settings.models, DEFAULT_MODEL)
            self._catalog = Catalog(names, self._keys, self._settings.state_dir)
        return self._catalog

    def setup_of(self, spec: str, *, is_read: bool = False) -> ModelSetup | None:
        """Return what a person must do before a model works; None for nothing.

        With `is_read`, a key that the keyring has but did not give is missing; otherwise it may still come.
        """
        if spec == DEFAULT_MODEL:
            return None
        try:
            self.make(spec)
        except InvalidRequestError as error:
            return unusable(str(error))
        setup = setup_of(spec, self._keys)
        if setup is None or setup.is_done or is_read or not self._keys.is_unread(_name_of(spec)):
            return setup
        return replace(setup, is_done=True)

    def make(self, spec: str) -> Model:
        settings = self._settings
        patience = Patience(
            first_byte=settings.first_byte_seconds, stall=settings.stall_seconds, retry=settings.retry_seconds
        )
        return make_model(spec, patience, self._keys)

    def unusable(self, spec: str, reason: str) -> Model:
        return UnusableModel(spec, unusable(reason).sentence)

    def offered(self) -> Sequence[tuple[str, str]]:
        self._keys.look()
        return [(model.spec, model.title) for model in self.catalog.offered]

    def refresh(self) -> bool:
        """Ask providers for their models; return whether they have others than before. Blocks."""
        return self.catalog.refresh()

    def window(self, spec: str) -> int | None:
        return None if spec == DEFAULT_MODEL else self.catalog.window(spec)

    def calls_tools(self, spec: str) -> bool:
        return self._settings.calls_tools(spec)

    def takes_pictures(self, spec: str) -> bool:
        return self._settings.takes_pictures(spec)

    def chosen(self, spec: str, *, is_awaited: bool = False) -> None:
        self._on_choice(spec, is_awaited)

    async def ready(self, spec: str) -> None:
        """Read keys that were stored meanwhile, and before the first call those that the keyring has.

        Raises:
            ModelUnusableError: a key is missing, and stored ones cannot be read.
        """
        if not spec.startswith(_PROVIDER) or not self._keys.is_behind:
            return
        self._keys.look()
        if not self._keys.is_unread(_name_of(spec)):
            return
        await on_daemon_thread(self._keys.read)
        setup = self.setup_of(spec, is_read=True)
        if setup is not None and not setup.is_done and self._keys.problem:
            raise ModelUnusableError(f"{setup.failure}; {self._keys.problem}")


_PROVIDER: Final = "provider:"


def _name_of(spec: str) -> str:
    """Return the name under which the key of a model's provider is stored; "" if it takes none."""
    return key_name(spec.removeprefix(_PROVIDER).partition(":")[0]) if spec.startswith(_PROVIDER) else ""
