"""All settings in one table: command line, then environment, then config file, then default.

Owns names, defaults and checks. Every console script reads them once at start-up. `docs/configuration.md` documents
each row, and a test compares the two.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from msgspec import Struct

from .errors import InvalidRequestError

if TYPE_CHECKING:
    from .repositories import Repository

DEFAULT_MODEL: Final = "direct"
DEFAULT_STORE: Final = "sqlite"
_REFUSED: Final = (
    "has a password, which others could read there; put it into REWINDOW_STORE, PGPASSWORD or a password file, see "
    "`rewindow help postgresql`"
)
_TENANT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
RerenderRule = Literal["economic", "immediate", "never"]
"""When a handle's new policy changes earlier results that show it: if that saves tokens, always, or never."""
RestoreRule = Literal["checkpoints", "re-execution"]
"""How names are restored: from paused copies of the process where one fits, or only by running statements again."""
SandboxRule = Literal["auto", "required", "off"]
"""Whether statements of models and clients are sandboxed. auto: if possible; required: without it they do not run."""
_USERS_SANDBOX: Final[SandboxRule] = "auto"
"""The default for users. Embedding programs choose by themselves."""


class Settings(Struct, frozen=True, kw_only=True):
    """One value per row of SETTINGS. Times are in seconds; tuples are patterns of names, with `*`.

    An embedding program that makes its own settings chooses the `sandbox`, because its statements may rely on its
    files. Its default None is like `off`, but the session does not mention it. `load_settings` sets a rule for users.
    """

    state_dir: Path
    store: str = DEFAULT_STORE
    tenant: str = ""
    workspaces: tuple[Repository, ...] = ()
    model: str = DEFAULT_MODEL
    models: tuple[str, ...] = ()
    fallback_models: tuple[str, ...] = ()
    models_without_tools: tuple[str, ...] = ()
    models_without_pictures: tuple[str, ...] = ()
    python: str | None = None
    context_budget: int = 128_000
    projection_rerender: RerenderRule = "economic"
    max_rounds: int = 50
    statement_seconds: float = 120.0
    first_byte_seconds: float = 300.0
    stall_seconds: float = 60.0
    retry_seconds: float = 60.0
    past_bytes: int = 256 << 20
    restore_by: RestoreRule = "checkpoints"
    checkpoint_bytes: int = 2 << 30
    summary_tokens: int = 50_000
    sandbox: SandboxRule | None = None
    allow_sudo: bool = False
    hidden_names: tuple[str, ...] = ()
    fetch_private: tuple[str, ...] = ()
    mcp_sampling: bool = False

    def calls_tools(self, model: str) -> bool:
        """Return whether a model asks for statements with a tool call rather than as text."""
        return not _is_among(self.models_without_tools, model)

    def takes_pictures(self, model: str) -> bool:
        """Return whether a model may be sent pictures."""
        return not _is_among(self.models_without_pictures, model)


def _is_among(patterns: Sequence[str], model: str) -> bool:
    kind, _, named = model.partition(":")
    names = [model, *([named, named.partition(":")[2]] if kind == "provider" else [])]
    return any(_is_like(pattern, name) for pattern in patterns for name in names)


def _is_like(pattern: str, name: str) -> bool:
    # Not `fnmatch`, because model names contain brackets.
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.IGNORECASE) is not None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("must be a number") from None


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("must be a whole number") from None


def _positive(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        value = convert(text)
        if not 0 < value < math.inf:
            raise ValueError("must be more than 0, and finite")
        return value

    return parse


def _natural(text: str) -> int:
    value = _whole(text)
    if value < 0:
        raise ValueError("must be 0 or more")
    return value


def _yes_or_no(text: str) -> bool:
    try:
        return {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}[text.strip().lower()]
    except KeyError:
        raise ValueError("must be yes or no") from None


def _one_of(words: Sequence[str]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        word = text.strip().lower()
        if word not in words:
            raise ValueError(f"must be {', '.join(words[:-1])} or {words[-1]}")
        return word

    return parse


def _store(text: str) -> str:
    from .store_address import check_address, is_address  # here, so that only users of a database pay for it

    if is_address(text):
        check_address(text)
    elif text != DEFAULT_STORE:
        raise ValueError(f"must be {DEFAULT_STORE} or postgresql://...")
    return text


def _tenant(text: str) -> str:
    if text and _TENANT.fullmatch(text) is None:
        raise ValueError("must have 1 to 64 ASCII letters, digits, `.`, `_` and `-`, a letter or digit first")
    return text


def _repositories(text: str) -> tuple[Repository, ...]:
    from .repositories import parse_repositories  # here, as in `_store`

    return parse_repositories(text)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in map(str.strip, text.split(",")) if name)


class Setting(Struct, frozen=True):
    """One setting: its name in the config file, the parser of its value, and its help text."""

    name: str
    parse: Callable[[str], Any]
    value: str
    """The placeholder of its value in a help text: its unit, or the allowed words."""
    help: str
    may_have_password: bool = False
    """Whether no error quotes the value, and a value with a password is taken from the environment alone."""
    is_quoted: bool = True
    """Whether errors quote the value."""
    is_of_server: bool = False
    """Whether it is decided for all users of a server: with SERVED, a user's config file has no say in it."""

    @property
    def variable(self) -> str:
        return f"REWINDOW_{self.name.upper()}"


SERVED: Final = "REWINDOW_SERVED"
"""A variable that is set for the agents of a server's users: its keys must not go where a user's config file says."""
_HIDDEN: Final = Setting(
    "hidden_names",
    _names,
    "PATTERNS",
    "more environment variables with secret values, or with `!` without: `COMPANY_*, !SORT_KEY`",
)
SETTINGS: Final = (
    Setting("state_dir", lambda text: Path(text).expanduser(), "DIR", "where sessions are kept", is_of_server=True),
    Setting(
        "store",
        _store,
        "sqlite|ADDRESS",
        "the database of sessions: in `state_dir`, or PostgreSQL at `postgresql://USER@HOST/DATABASE`",
        may_have_password=True,
        is_of_server=True,
    ),
    Setting(
        "tenant",
        _tenant,
        "NAME",
        "whose sessions to use in a PostgreSQL store that several people share",
        is_of_server=True,
    ),
    Setting(
        "workspaces",
        _repositories,
        "DIR=REPOSITORY",
        "directories whose sessions each get a clone of a git repository: `/work/app=https://git.example/app.git#main`",
        is_quoted=False,
        is_of_server=True,
    ),
    Setting("model", str, "MODEL", "`direct`, `provider:PROVIDER:MODEL`, or `scripted:FILE` for replies from a file"),
    Setting("models", _names, "MODELS", "more models to choose from in a session, written as in `model`"),
    Setting("fallback_models", _names, "MODELS", "models to call instead if the chosen one fails, in this order"),
    Setting(
        "models_without_tools",
        _names,
        "PATTERNS",
        "models that cannot call tools and write their statements as text, such as `openai:llama*`",
    ),
    Setting(
        "models_without_pictures",
        _names,
        "PATTERNS",
        "models that get the names of pictures but not the images, such as `openai:text-*`",
    ),
    Setting("python", str, "PATH", "the Python whose packages statements import, if Rewindow does not find it"),
    Setting("context_budget", _positive(_whole), "TOKENS", "the most tokens that one model call may read"),
    Setting(
        "projection_rerender",
        _one_of(get_args(RerenderRule)),
        "|".join(get_args(RerenderRule)),
        "when a new budget, level or position of a view also changes its text in earlier results",
    ),
    Setting("max_rounds", _positive(_whole), "N", "model calls in one turn before it stops"),
    Setting("statement_seconds", _positive(_number), "SECONDS", "how long one statement may run"),
    Setting(
        "first_byte_seconds",
        _positive(_number),
        "SECONDS",
        "how long a model may take to begin its reply, before Rewindow repeats the call",
    ),
    Setting(
        "stall_seconds",
        _positive(_number),
        "SECONDS",
        "how long a reply may pause, before Rewindow repeats the call",
    ),
    Setting(
        "retry_seconds",
        _positive(_number),
        "SECONDS",
        "the longest pause before a repeated call that a provider may request",
    ),
    Setting("past_bytes", _positive(_whole), "BYTES", "disk space that one session may use to restore its variables"),
    Setting(
        "restore_by",
        _one_of(get_args(RestoreRule)),
        "|".join(get_args(RestoreRule)),
        "how variables are restored: from checkpoints if possible, or always by running statements again",
    ),
    Setting(
        "checkpoint_bytes",
        _positive(_whole),
        "BYTES",
        "extra memory that the checkpoints of all sessions may use together",
    ),
    Setting(
        "summary_tokens",
        _natural,
        "TOKENS",
        "the most tokens for model summaries of views in one session; 0 for no summaries",
    ),
    Setting(
        "sandbox",
        _one_of(get_args(SandboxRule)),
        "|".join(get_args(SandboxRule)),
        "whether model statements run in a sandbox: if there is one, only there, or never",
    ),
    Setting("allow_sudo", _yes_or_no, "yes|no", "whether statements may use sudo; they can then read your processes"),
    _HIDDEN,
    Setting(
        "fetch_private",
        _names,
        "HOSTS",
        "hosts at private addresses that statements may fetch from: `localhost:8000, wiki.example`",
    ),
    Setting(
        "mcp_sampling",
        _yes_or_no,
        "yes|no",
        "whether MCP servers may request replies from the session's model; you are asked each time",
    ),
)
"""All settings, in the order of the documentation."""


def load_settings(environ: Mapping[str, str], overrides: Mapping[str, str | None] | None = None) -> Settings:
    """Load the settings.

    Args:
        environ: the process environment.
        overrides: values from the command line by option name; None means not given.

    Raises:
        InvalidRequestError: a value or the config file is invalid; the message names it.
    """
    values: dict[str, Any] = {"state_dir": default_state_dir(environ), "sandbox": _USERS_SANDBOX}
    for option, source, text in _given(environ, overrides or {}):
        try:
            values[option.name] = option.parse(_as_text(text))
        except (ValueError, RuntimeError) as error:
            quoted = f" {text!r}" if option.is_quoted and not option.may_have_password else ""
            raise InvalidRequestError(f"{source} has an invalid value{quoted}: {error}") from None
        if option.may_have_password and source != option.variable:
            _refuse_password(source, values[option.name])
    return Settings(**values)


def given_variables(environ: Mapping[str, str], overrides: Mapping[str, str | None]) -> dict[str, str]:
    """Return all settings that are given anywhere, as variables for a program that runs elsewhere.

    Arguments and errors as `load_settings`.
    """
    return {option.variable: _as_text(text) for option, _, text in _given(environ, overrides)}


def _given(environ: Mapping[str, str], overrides: Mapping[str, str | None]) -> Iterator[tuple[Setting, str, object]]:
    """Yield the settings that are given, with where, and the value."""
    variables, from_file = _as_they_count(environ, _config_file(environ))
    for option in SETTINGS:
        for source, text in (
            (f"--{option.name.replace('_', '-')}", overrides.get(option.name)),
            (option.variable, variables.get(option.variable)),
            (f"{option.name} in {config_path(environ)}", from_file.get(option.name)),
        ):
            if text:
                yield option, source, text
                break


def _as_they_count(
    environ: Mapping[str, str], from_file: Mapping[str, object]
) -> tuple[Mapping[str, str], Mapping[str, object]]:
    """Return the variables and the config file without what the user of a server may not decide.

    Patterns of secrets in the user's file are added to the server's, and cannot take a secret of the server out.
    """
    if SERVED not in environ:
        return environ, from_file
    refused = {_HIDDEN.name, *(each.name for each in SETTINGS if each.is_of_server)}
    patterns = [environ.get(_HIDDEN.variable, ""), *_names(_as_text(from_file.get(_HIDDEN.name, "")))]
    text = ",".join(each for each in patterns[:1] + [each for each in patterns[1:] if not each.startswith("!")] if each)
    own = {name: value for name, value in from_file.items() if name not in refused}
    return {**environ, _HIDDEN.variable: text}, own


def _refuse_password(source: str, address: str) -> None:
    from .store_address import has_password  # here, as in `_store`

    if has_password(address):
        raise InvalidRequestError(f"{source} {_REFUSED}")


def hidden_names(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return this setting, even if another one or the rest of the config file is invalid."""
    from_file: Mapping[str, object] = {}
    with suppress(InvalidRequestError):  # `load_settings` reports it
        from_file = _config_file(environ, checks=False)
    variables, from_file = _as_they_count(environ, from_file)
    text = variables.get(_HIDDEN.variable) or from_file.get(_HIDDEN.name)
    try:
        return cast("tuple[str, ...]", _HIDDEN.parse(_as_text(text))) if text else ()
    except (ValueError, RuntimeError):
        return ()


def _as_text(value: object) -> str:
    """Return a value of the config file as an environment variable would have it."""
    return ",".join(map(str, cast("list[object]", value))) if isinstance(value, list) else str(value)


def config_path(environ: Mapping[str, str]) -> Path:
    """Return the path of the config file: `$XDG_CONFIG_HOME/rewindow/config.toml`."""
    base = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", "/"), ".config")
    return Path(base) / "rewindow" / "config.toml"


def default_state_dir(environ: Mapping[str, str]) -> Path:
    """Return the default directory of sessions: `$XDG_STATE_HOME/rewindow`."""
    base = environ.get("XDG_STATE_HOME") or os.path.join(environ.get("HOME", "/"), ".local", "state")
    return Path(base) / "rewindow"


def _config_file(environ: Mapping[str, str], *, checks: bool = True) -> Mapping[str, object]:
    path = config_path(environ)
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InvalidRequestError(f"{path} cannot be read: {error.strerror}") from None
    import tomllib  # here, so that only users with a config file pay for the parser

    from .text import printable

    try:
        table: dict[str, object] = tomllib.loads(text.decode())
    except ValueError as error:
        raise InvalidRequestError(f"{path} is not valid TOML: {printable(str(error))}") from None
    unknown = sorted(set(table) - {option.name for option in SETTINGS})
    if unknown and checks:
        names = printable(", ".join(unknown))
        raise InvalidRequestError(f"{path} sets unknown options: {names}; correct or remove them")
    return table
