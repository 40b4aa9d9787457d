"""The models of a process, and the model of a session: which can be chosen, and the one object that calls go to.

`Models` has two implementations, which `Host` makes for the first session: `ConfiguredModels`, those that the settings
and the providers name, and `OwnModel`, the one of an embedding program. `ModelChoice` is a session's choice: an option
of the session, `model`, and so is how much it thinks, `thought_level`. Both hold from the next call on. `ModelChoice`
must not know what a provider is.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Final, Protocol, get_args

import anyio
from msgspec.structs import replace

from ..context.model import (
    DELAY_SECONDS,
    CallDelayed,
    CallRetried,
    ContextTooLongError,
    Model,
    ModelError,
    ModelSignal,
    ModelUnusableError,
    Patience,
    PictureRefusedError,
    Prompt,
    Seeing,
    Thinking,
    Windowed,
)
from ..context.models import close_model, make_model
from ..context.models.catalog import Catalog
from ..context.models.local import UnusableModel
from ..context.models.providers import ModelSetup, key_name, setup_of, unusable
from ..core.errors import InvalidRequestError
from ..core.pictures import PictureRule
from ..core.settings import DEFAULT_MODEL, Settings
from ..log.event_log import EventLog
from ..log.events.session import ConfigChanged
from .daemon_threads import on_daemon_thread
from .keys import Keys
from .policy import OptionRow, Policy

MODEL: Final = "model"
THINKING: Final = "thought_level"
_THINKING_TEXT: Final = "How much the model thinks before it answers"
THINKING_LEVELS: Final = {
    "default": "The default of the provider",
    "off": "No thinking, or the least possible",
    "low": "A little",
    "medium": "Some",
    "high": "Much",
    "max": "The most possible",
}


class Models(Protocol):
    """The models of a process."""

    @property
    def default(self) -> str:
        """The name of the model of a session that has not chosen one; "" for a program's own, which has none."""
        ...

    def make(self, spec: str, /) -> Model:
        """Make the model of that name. Raises InvalidRequestError if there is none."""
        ...

    def unusable(self, spec: str, reason: str, /) -> Model:
        """Make a model whose every reply fails, because `spec` cannot be made."""
        ...

    def offered(self) -> Sequence[tuple[str, str]]:
        """Return the names that can be chosen, each with a title. None for a program's own model."""
        ...

    def window(self, spec: str, /) -> int | None:
        """Return the tokens that this model can read, if that is known."""
        ...

    def calls_tools(self, spec: str, /) -> bool:
        """Return whether this model asks for statements by calling a tool."""
        ...

    def takes_pictures(self, spec: str, /) -> bool:
        """Return whether this model may be sent pictures, if it takes any."""
        ...

    def chosen(self, spec: str, /, *, is_awaited: bool = False) -> None:
        """Note that a session will call this model; `is_awaited`: in the turn that runs."""
        ...

    async def ready(self, spec: str, /) -> None:
        """Wait until this model can be called. Raises ModelUnusableError if the user must do something first."""
        ...


class ModelChoice:
    """The model that a session calls: a `Model`, whichever was chosen last."""

    def __init__(self, models: Models, policy: Policy, log: EventLog, fallbacks: Sequence[str] = ()) -> None:
        self._models = models
        self._policy = policy
        self._log = log
        self._made: tuple[str, Model] | None = None
        self._left: list[Model] = []
        """Earlier ones, which may still answer a call."""
        self._fallbacks = fallbacks
        self._others: dict[str, Model] = {}
        self.answering = ""
        """The name of the model that was asked last."""

    # --- the choice ---------------------------------------------------------------------------------------------------

    @property
    def spec(self) -> str:
        """The name of the chosen model."""
        return self._policy.options.values.get(MODEL) or self._models.default

    @property
    def is_direct(self) -> bool:
        """Whether nothing but the user's own statements runs."""
        return self.name == DEFAULT_MODEL

    def expect(self) -> None:
        """Note that the turn that runs calls the model, so that what it needs is loaded beside other preparations."""
        if not self.is_direct:
            self._models.chosen(self.spec, is_awaited=True)

    @property
    def thinking(self) -> Thinking:
        """How much it is asked to think."""
        value = self._policy.options.values.get(THINKING)
        return next((level for level in get_args(Thinking) if level == value), "default")

    @property
    def rows(self) -> Sequence[OptionRow]:
        """The options of the model; none for a program's own."""
        return self.rows_of(self.spec)

    def rows_of(self, spec: str) -> Sequence[OptionRow]:
        """Return the options of the model while `spec` is chosen."""
        offered = dict(self._models.offered())
        if not offered:
            return ()
        model = OptionRow(
            name=MODEL,
            title="Model",
            text="The model that answers prompts",
            values=offered if spec in offered else {spec: spec.removeprefix("provider:"), **offered},
            category=MODEL,
            default=self._models.default,
            is_open=True,
        )
        if not spec.startswith("provider:"):
            return (model,)
        thinking = OptionRow(
            name=THINKING,
            title="Thinking",
            text=_THINKING_TEXT,
            values=dict(THINKING_LEVELS),
            category=THINKING,
            default="default",
        )
        return (model, thinking)

    def set(self, name: str, value: str) -> None:
        """Set `model` or `thought_level`, from the next call on.

        A model need not be among those offered, because a provider's list may be old.

        Raises:
            InvalidRequestError: there is no such model or level.
        """
        if not self._models.offered():
            raise InvalidRequestError("the model of this session cannot be changed")
        if name == MODEL:
            self._models.make(value)
        elif value not in THINKING_LEVELS:
            raise InvalidRequestError(f"{name} cannot be {value!r}; use one of {', '.join(THINKING_LEVELS)}")
        if value == (self.spec if name == MODEL else self.thinking):
            return
        self._log.append(ConfigChanged(option=name, value=value))
        if name == MODEL:
            self._models.chosen(value)  # so that what it needs can be loaded ahead

    # --- the model ----------------------------------------------------------------------------------------------------

    @property
    def _current(self) -> Model:
        spec = self.spec
        if self._made is None or self._made[0] != spec:
            if self._made is not None:
                self._left.append(self._made[1])
            self._made = spec, self._made_of(spec)
        return self._made[1]

    def _made_of(self, spec: str) -> Model:
        try:
            return self._models.make(spec)
        except InvalidRequestError as error:
            return self._models.unusable(spec, str(error))

    @property
    def name(self) -> str:
        return self._current.name

    @property
    def summarizes(self) -> bool:
        return self._current.summarizes

    @property
    def calls_tools(self) -> bool:
        """Whether it asks for statements by calling a tool."""
        return self._models.calls_tools(self.spec)

    @property
    def picture_rule(self) -> PictureRule | None:
        """How its provider counts pictures; None if it takes none."""
        return self._rule_of(self.spec, self._current)

    def _rule_of(self, spec: str, model: Model) -> PictureRule | None:
        return model.picture_rule if isinstance(model, Seeing) and self._models.takes_pictures(spec) else None

    @property
    def window(self) -> int | None:
        """The tokens that it can read and write in one call: as its provider says, or as its library knows."""
        said = self._models.window(self.spec)
        model = self._current
        return said if said is not None or not isinstance(model, Windowed) else model.window

    async def reply(self, prompt: Prompt) -> AsyncGenerator[ModelSignal, None]:
        """Stream a reply of the chosen model; if it fails, of the next fallback with the same form of statements.

        Raises ContextTooLongError, or a ModelError with what each of them said.
        """
        prompt = replace(prompt, thinking=self.thinking)
        self.answering = self.spec
        others = [each for each in self._fallbacks if self._models.calls_tools(each) == prompt.calls_tools]
        asked = [(self.spec, self._current), *((each, self._fallback(each)) for each in others if each != self.spec)]
        failures: list[str] = []
        for number, (self.answering, model) in enumerate(asked, 1):
            streamed = False
            try:
                with anyio.move_on_after(DELAY_SECONDS) as reading:
                    await self._models.ready(self.answering)
                if reading.cancelled_caught:
                    yield CallDelayed("reading the keys in the system's keyring")
                    await self._models.ready(self.answering)  # which waits for the reading that was begun
                shown = prompt if self._rule_of(self.answering, model) else replace(prompt, pictures={})
                async with aclosing(model.reply(shown)) as signals:
                    async for signal in signals:
                        if isinstance(signal, CallRetried):
                            streamed = streamed and not signal.withdrawn
                        else:
                            streamed = streamed or not isinstance(signal, CallDelayed)
                        yield signal
                return
            except ModelError as error:
                if number == 1 and isinstance(error, ContextTooLongError | PictureRefusedError):
                    raise
                failures.append(str(error).rstrip("."))
                if number == len(asked):
                    # A shorter prompt for a fallback would not be one for the chosen model.
                    kind = ModelUnusableError if isinstance(error, ModelUnusableError) else ModelError
                    raise kind("; ".join(failures)) from error.__cause__
                instead = asked[number][0].removeprefix("provider:")
                again = CallRetried(number + 1, len(asked), 0.0, failures[-1], withdrawn=streamed, instead=instead)
            yield again

    def _fallback(self, spec: str) -> Model:
        model = self._others.get(spec)
        if model is None:
            model = self._others[spec] = self._made_of(spec)
        return model

    async def aclose(self) -> None:
        """Close every model that was made; a failure is only logged."""
        made = [] if self._made is None else [self._made[1]]
        left, self._left, self._made = [*self._left, *made, *self._others.values()], [], None
        self._others = {}
        for model in left:
            await close_model(model)


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
