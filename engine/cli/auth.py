"""`rewindow auth`: the keys of providers, for people. `rewindow-acp --setup` is its action `setup`.

A key is typed without echo or comes from a pipe, and is never an argument: other programs see those, and a shell keeps
them. No output contains a key. Must not know where keys are stored, which is `session.keys`.
"""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable
from typing import Final

import typer

from ..context.models.catalog import RefusedKeyError, prove
from ..context.models.providers import Provider, address_of, address_shown, keyed, provider_of
from ..core.errors import InvalidRequestError
from ..core.key_file import key_path, warning_about
from ..core.text import plural
from ..log.redaction import SHORTEST, Redactor
from ..session.keys import ENVIRONMENT, FILE, KEYRING, MOST_CHARS, Keys, clean_key, stored_name, variable_of
from .commands import ExitCode, chosen, complaint

ACTIONS: Final = ("list", "add", "remove", "test", "setup")
ON_THE_COMMAND_LINE: Final = (
    "the key was not stored, because other programs and your shell's history can see keys on the "
    "command line; replace the key at the provider, then run `rewindow auth add PROVIDER`, which "
    "asks for the new key"
)
NO_TERMINAL: Final = "the setup needs a terminal; `rewindow auth add PROVIDER` reads a key from a pipe"
NO_KEY: Final = "there is no key; `rewindow auth add PROVIDER` stores a key"
SHORT: Final = f"A key with fewer than {SHORTEST} characters is not redacted in texts."
_PROVIDER: Final[list[str]] = typer.Argument([], help=f"The provider: {', '.join(keyed())}.", metavar="PROVIDER")
_PROMPT: Final = "Key of {name} (not shown): "


def auth(
    action: str = typer.Argument("", help=f"{', '.join(ACTIONS[:-1])} or {ACTIONS[-1]}.", metavar="ACTION"),
    words: list[str] = _PROVIDER,
    file: bool = typer.Option(False, "--file", help="Store the key in a file, not in the keyring."),
) -> None:
    """Store, list, test and remove keys of model providers."""
    if len(words) > 1:
        raise InvalidRequestError(ON_THE_COMMAND_LINE)
    provider = "".join(words)
    keys = Keys(os.environ)
    match chosen("the action", action or ("setup" if sys.stdin.isatty() else "list"), ACTIONS):
        case "add":
            _add(keys, stored_name(provider or _asked_provider()), in_file=file)
        case "remove":
            _remove(keys, stored_name(provider or _asked_provider()))
        case "test":
            _test(keys, [stored_name(provider)] if provider else [])
        case "setup":
            _set_up(keys, in_file=file)
        case _:
            _list(keys)


# --- actions ----------------------------------------------------------------------------------------------------------


def _list(keys: Keys) -> None:
    keys.read(everywhere=True)
    width = max(map(len, keyed()))
    for name in keyed():
        typer.echo(f"{name:<{width}}  {_origin(keys, name)}")
    _warn(keys)


def _origin(keys: Keys, name: str) -> str:
    match keys.origin(name):
        case "":
            return "no key"
        case origin if origin == ENVIRONMENT:
            return f"{origin} ({variable_of(name, os.environ)})"
        case origin if origin == FILE:
            return f"{origin} {key_path(os.environ)}"
        case origin:
            return origin if name in keys.known else f"{origin}, which cannot be read now"


def _add(keys: Keys, name: str, *, in_file: bool = False) -> None:
    key = _asked_key(name)
    reason = keys.add(name, key, in_file=in_file)
    if reason:
        typer.echo(complaint(reason), err=True)
    place = f"{key_path(os.environ)}, which only you can read" if in_file or reason else f"the {KEYRING}"
    typer.echo(f"Stored the key of {name} in {place}.")
    if len(key) < SHORTEST:
        typer.echo(SHORT, err=True)
    if variable := variable_of(name, os.environ):
        typer.echo(f"{variable} is set, and is used instead of the stored key.", err=True)
    _warn(keys)


def _remove(keys: Keys, name: str) -> None:
    keys.read(everywhere=True)
    if name not in keys.stored:
        typer.echo(f"No key of {name} is stored.")
    else:
        keys.remove([name])
        typer.echo(f"Removed the stored key of {name}.")
    if variable := variable_of(name, os.environ):
        typer.echo(f"{variable} is set in the environment, and is still used.", err=True)
    _warn(keys)


def _test(keys: Keys, names: list[str]) -> None:
    keys.read(everywhere=True)
    _warn(keys)
    names = names or [*keys.known]
    if not names:
        raise InvalidRequestError(NO_KEY)
    results = [_tested(keys, name) for name in names]
    for _, sentence in results:
        typer.echo(sentence)
    if not all(works for works, _ in results):
        raise typer.Exit(ExitCode.FAILED)


def _tested(keys: Keys, name: str) -> tuple[bool, str]:
    """Return whether the provider accepts the key, and a sentence."""
    provider = provider_of(name, keys)
    if not provider.key(keys):
        return False, f"{name}: there is no key"
    try:
        where = address_shown(address_of(provider, keys))
    except InvalidRequestError as error:
        return False, f"{name}: {error}"
    try:
        count = prove(name, provider, keys)
    except RefusedKeyError as error:
        return False, f"{name}: {where} refuses the key ({error})"
    except (OSError, ValueError) as error:
        return False, f"{name}: {where} did not answer as expected: {_without_key(provider, keys, str(error))}"
    return True, f"{name}: {where} accepts the key, and offers {count:,} {plural(count, 'model')}"


def _without_key(provider: Provider, keys: Keys, text: str) -> str:
    return Redactor([provider.key(keys)]).redact(text)


def _warn(keys: Keys) -> None:
    for sentence in filter(None, (keys.problem, warning_about(os.environ))):
        typer.echo(complaint(sentence), err=True)


# --- questions --------------------------------------------------------------------------------------------------------


def _set_up(keys: Keys, *, in_file: bool) -> None:
    """Ask for providers and their keys, until the user has no more. Fails without any key."""
    if not sys.stdin.isatty():
        raise InvalidRequestError(NO_TERMINAL)
    _list(keys)
    while name := _again(_asked_provider):
        stored = stored_name(name)
        if _again(lambda stored=stored: _added(keys, stored, in_file=in_file)):
            typer.echo(_tested(keys, stored)[1])
    if not keys.known:
        raise InvalidRequestError(NO_KEY)
    typer.echo("Editors that run Rewindow use the keys from the next prompt on.")


def _added(keys: Keys, name: str, *, in_file: bool) -> str:
    _add(keys, name, in_file=in_file)
    return name


def _again(ask: Callable[[], str]) -> str:
    """Ask until the answer is valid."""
    while True:
        try:
            return ask()
        except InvalidRequestError as error:
            typer.echo(complaint(error), err=True)


def _asked_provider() -> str:
    """Return the name of a provider; "" for none. Raises InvalidRequestError."""
    if not sys.stdin.isatty():
        raise InvalidRequestError(f"name the provider: {', '.join(keyed())}")
    typer.echo(f"Provider ({', '.join(keyed())}; Enter to finish): ", nl=False)
    answer = sys.stdin.readline().strip()
    return stored_name(answer) if answer else ""


def _asked_key(name: str) -> str:
    """Return a key from the terminal without echo, or from a pipe. Raises InvalidRequestError."""
    if not sys.stdin.isatty():
        return clean_key(sys.stdin.read(2 * MOST_CHARS))
    try:
        return clean_key(getpass.getpass(_PROMPT.format(name=name)))
    except EOFError:
        raise typer.Abort from None
