"""The models of one process: those that its settings and its providers name, or the one of an embedding program.

Made by `Host`, for the first session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..context.model import Model, Patience
from ..context.models import make_model
from ..context.models.catalog import Catalog
from ..context.models.local import UnusableModel
from ..context.models.providers import ModelSetup, setup_of, unusable
from ..core.errors import InvalidRequestError
from ..core.settings import DEFAULT_MODEL, Settings


class OwnModel:
    """The model of an embedding program, which cannot be changed. `make` makes a session's."""

    default = ""

    def __init__(self, make: Callable[[], Model], settings: Settings) -> None:
        self._make = make
        self._settings = settings

    def setup_of(self, _spec: str) -> None:
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

    def chosen(self, spec: str) -> None:
        """Do nothing."""


class ConfiguredModels:
    """The models that the settings name, and those of each provider with a key.

    Args:
        on_choice: called with the name of each model that a session will call.
    """

    def __init__(self, settings: Settings, environ: Mapping[str, str], on_choice: Callable[[str], None]) -> None:
        self.default = settings.model
        self._settings = settings
        self._environ = environ
        self._on_choice = on_choice
        self._catalog: Catalog | None = None

    @property
    def catalog(self) -> Catalog:
        """What can be chosen."""
        if self._catalog is None:
            names = (self.default, *self._settings.models, DEFAULT_MODEL)
            self._catalog = Catalog(names, self._environ, self._settings.state_dir)
        return self._catalog

    def setup_of(self, spec: str) -> ModelSetup | None:
        """Return what a person must do before a model works; None for nothing."""
        if spec == DEFAULT_MODEL:
            return None
        try:
            self.make(spec)
        except InvalidRequestError as error:
            return unusable(str(error))
        return setup_of(spec, self._environ)

    def make(self, spec: str) -> Model:
        settings = self._settings
        patience = Patience(
            first_byte=settings.first_byte_seconds, stall=settings.stall_seconds, retry=settings.retry_seconds
        )
        return make_model(spec, patience)

    def unusable(self, spec: str, reason: str) -> Model:
        return UnusableModel(spec, unusable(reason).sentence)

    def offered(self) -> Sequence[tuple[str, str]]:
        return [(model.spec, model.title) for model in self.catalog.offered]

    def refresh(self) -> bool:
        """Ask providers for their models; return whether they have others than before. Blocks."""
        return self.catalog.refresh()

    def window(self, spec: str) -> int | None:
        return None if spec == DEFAULT_MODEL else self.catalog.window(spec)

    def calls_tools(self, spec: str) -> bool:
        return self._settings.calls_tools(spec)

    def chosen(self, spec: str) -> None:
        self._on_choice(spec)
