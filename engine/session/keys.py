"""The keys of providers: those of the environment, which win, then those that the user stored.

A key is stored in the system's keyring, or in a file if there is none. `Keys` is the environment with the stored keys
in it, so what reads a key from the environment finds a stored one, too. Only models read it: programs and workers get
the environment itself. Each key that is read becomes known to the redactor before anything else can use it.

The file is read at the start, and again when it changed. The keyring is read on a thread, and only when a key in it is
needed or the user signs in, because it may have to be unlocked. The file lists what the keyring has: so a program
notices another one's `auth add`, and a keyring without keys is never asked.
"""

from __future__ import annotations

import string
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, Protocol

from msgspec.structs import replace

from ..context.models.providers import key_name, keyed
from ..core.errors import InvalidRequestError, KeyringError
from ..core.key_file import Mark, StoredKeys, change_keys, mark_of, read_keys

ENVIRONMENT: Final = "environment"
KEYRING: Final = "keyring"
FILE: Final = "file"
MOST_CHARS: Final = 16_384
EMPTY: Final = "the key is empty; type it, or pass it on standard input"
NOT_PRINTABLE: Final = "the key contains blanks, control characters or letters that a key cannot have; copy it again"
TOO_LONG: Final = f"the key is longer than {MOST_CHARS:,} characters"
_IN_KEYS: Final = frozenset(string.ascii_letters + string.digits + string.punctuation)


class Keyring(Protocol):
    """Keeps keys by the provider's name (`runtime.system_keyring`). Each method blocks and may raise KeyringError."""

    def get(self, names: Iterable[str], /) -> Mapping[str, str]: ...

    def set(self, name: str, key: str, /) -> None: ...

    def delete(self, name: str, /) -> None: ...


class Keys(Mapping[str, str]):
    """The environment with stored keys. Its methods may be called on any thread; reading it never blocks.

    Args:
        environ: the environment, which also says where the file is.
        learn: makes values known as secrets.
        keyring: None for the system's.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        learn: Callable[[Sequence[str]], None] = lambda _: None,
        keyring: Keyring | None = None,
    ) -> None:
        self._environ = environ
        self._learn = learn
        self._given = keyring
        self._asking = threading.Lock()
        """Held while the keyring is used, which may take long."""
        self._failed = 0
        """How often the keyring did not give what it was asked for."""
        self._changing = threading.RLock()
        """Held for moments, while the values below change together."""
        self._file = StoredKeys()
        self._mark: Mark | None = None
        self._in_keyring: Mapping[str, str] = {}
        self._unread: frozenset[str] = frozenset()
        """Names that the keyring has, whose keys were not read."""
        self._stored: Mapping[str, str] = {}
        """By variable, those of providers with no key in the environment."""
        self._file_problem = self._keyring_problem = ""
        self.look()

    # --- the mapping --------------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> str:
        found = self._stored.get(name)
        return self._environ[name] if found is None else found

    def __iter__(self) -> Iterator[str]:
        return iter({**self._environ, **self._stored})

    def __len__(self) -> int:
        return len({**self._environ, **self._stored})

    def origin(self, name: str) -> str:
        """Return where the provider's key comes from: ENVIRONMENT, KEYRING or FILE; "" if none is known."""
        if variable_of(name, self._environ):
            return ENVIRONMENT
        if name in self._file.keys:
            return FILE
        return KEYRING if name in self._in_keyring or name in self._file.keyring else ""

    @property
    def known(self) -> dict[str, str]:
        """The origins of all keys that can be used now, by the provider's name."""
        return {name: self.origin(name) for name, row in keyed().items() if row.key(self)}

    @property
    def stored(self) -> frozenset[str]:
        """The names of providers with a stored key, even if the environment has one, too, or it cannot be read."""
        return frozenset((*self._file.keys, *self._file.keyring, *self._in_keyring))

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def is_behind(self) -> bool:
        """Whether `read` would find something: the file changed, or the keyring has keys that were not read."""
        return bool(self._unread) or self._mark != mark_of(self._environ)

    @property
    def problem(self) -> str:
        """Why stored keys could not be read; "" if they could."""
        return self._file_problem or self._keyring_problem

    def is_unread(self, name: str) -> bool:
        """Whether the keyring has a key of this provider that was not read since it was stored, and would be used."""
        return name in self._unread and not variable_of(name, self._environ)

    def look(self) -> None:
        """Read the file if it changed. A problem is noted."""
        with self._changing:
            if self._mark != (mark := mark_of(self._environ)):
                self._load(mark)

    def _load(self, mark: Mark | None) -> None:
        try:
            self._file, self._file_problem = read_keys(self._environ), ""
        except InvalidRequestError as error:
            self._file, self._file_problem = StoredKeys(), str(error)
        self._mark = mark
        self._unread = frozenset(self._file.keyring)
        self._publish({name: key for name, key in self._in_keyring.items() if name in self._unread})

    def read(self, *, everywhere: bool = False) -> None:
        """Read the file, and from the keyring the keys that it lists, or with `everywhere` those of all providers.

        Blocks for as long as the keyring may take. A problem is noted; who waited meanwhile does not ask again.
        """
        failed = self._failed
        with self._asking:
            if failed != self._failed and not everywhere:
                return
            with self._changing:
                if everywhere:
                    self._load(mark_of(self._environ))
                self.look()
                names, mark = [*keyed()] if everywhere else sorted(self._unread), self._mark
            if not names:
                return
            try:
                found, self._keyring_problem = self._keyring.get(names), ""
            except KeyringError as error:
                self._keyring_problem = str(error)
                self._failed += 1
                return
            with self._changing:
                if self._mark == mark:
                    self._unread -= {*names}
                others = {name: key for name, key in self._in_keyring.items() if name not in names}
                self._publish({**others, **found})

    def _publish(self, in_keyring: Mapping[str, str]) -> None:
        stored = {name: key.strip() for name, key in {**in_keyring, **self._file.keys}.items()}
        self._learn([*stored.values()])
        rows = keyed()
        self._in_keyring = in_keyring
        self._stored = {
            rows[name].variables[0]: key
            for name, key in stored.items()
            if name in rows and key and not variable_of(name, self._environ)
        }

    @cached_property
    def _keyring(self) -> Keyring:
        if self._given is not None:
            return self._given
        from ..runtime.system_keyring import SystemKeyring  # of the first request, which most processes never make

        return SystemKeyring(self._environ)

    # --- changing -----------------------------------------------------------------------------------------------------

    def add(self, name: str, key: str, *, in_file: bool = False) -> str:
        """Store a provider's key in the keyring, or in the file if that fails. Blocks.

        Args:
            name: see `stored_name`.
            key: see `clean_key`.
            in_file: use the file.

        Returns:
            why the keyring was not used; "" if it was, or with `in_file`.

        Raises:
            InvalidRequestError: it can be stored nowhere.
        """
        reason = ""
        with self._asking:
            with self._changing:
                self._learn([key])
            if not in_file:
                try:
                    self._keyring.set(name, key)
                except KeyringError as error:
                    reason = str(error)
            to_file = in_file or bool(reason)
            change_keys(self._environ, lambda stored: _with(stored, name, key if to_file else None))
            with self._changing:
                self.look()
                self._unread -= {name}
                rest = _without(self._in_keyring, name)
                self._publish(rest if to_file else {**rest, name: key})
        return reason

    def remove(self, names: Iterable[str]) -> None:
        """Remove the stored keys of these providers from the file and the keyring. Blocks.

        Raises:
            KeyringError: the keyring has some, and cannot be used. Those of the file are removed, and all of them are
                forgotten by this process.
            InvalidRequestError: the file cannot be changed.
        """
        names = [*names]
        failure: KeyringError | None = None
        left: set[str] = set()
        with self._asking:
            self.look()
            for name in names:
                try:
                    self._keyring.delete(name)
                except KeyringError as error:
                    if name in self._file.keyring or name in self._in_keyring:
                        failure, left = error, left | {name}
            if any(name in self._file.keys or name in self._file.keyring for name in names):
                change_keys(self._environ, lambda stored: _removed(stored, names, left))
            with self._changing:
                self.look()
                self._unread -= {*names}
                self._publish({name: key for name, key in self._in_keyring.items() if name not in names})
        if failure is not None:
            raise failure

    def forget(self) -> None:
        """Remove all stored keys; raises like `remove`."""
        self.look()
        self.remove(sorted(self.stored))


def _with(stored: StoredKeys, name: str, key: str | None) -> StoredKeys:
    """Return the file's content with the key, or with the name among those of the keyring."""
    listed = {*stored.keyring, name} if key is None else {*stored.keyring} - {name}
    return StoredKeys(_without(stored.keys, name) | ({} if key is None else {name: key}), tuple(sorted(listed)))


def _removed(stored: StoredKeys, names: Sequence[str], left: set[str]) -> StoredKeys:
    keys = {name: key for name, key in stored.keys.items() if name not in names}
    return replace(stored, keys=keys, keyring=tuple(sorted({*stored.keyring} - {*names} | left)))


def _without(keys: Mapping[str, str], name: str) -> dict[str, str]:
    return {each: key for each, key in keys.items() if each != name}


def variable_of(name: str, environ: Mapping[str, str]) -> str:
    """Return the variable of the environment that has the provider's key; "" if none has."""
    return next((variable for variable in keyed()[name].variables if environ.get(variable)), "")


def stored_name(provider: str) -> str:
    """Return the name under which a provider's key is stored.

    Raises:
        InvalidRequestError: there is no such provider, or it takes no key.
    """
    name = key_name(provider.strip().lower())
    if not name:
        raise InvalidRequestError(f"there is no such provider with a key; use one of {', '.join(keyed())}")
    return name


def clean_key(text: str) -> str:
    """Return a key as it was pasted, without blanks and line ends around it.

    Raises:
        InvalidRequestError: it is no key. The message does not contain it.
    """
    key = text.strip()
    if not key:
        raise InvalidRequestError(EMPTY)
    if len(key) > MOST_CHARS:
        raise InvalidRequestError(TOO_LONG)
    if not _IN_KEYS.issuperset(key):
        raise InvalidRequestError(NOT_PRINTABLE)
    return key


def missing_keys(keys: Keys) -> str:
    """Return a sentence about what a user who has no key may do; "" if one is known."""
    if keys.known:
        return ""
    variables = ", ".join(row.variables[0] for row in keyed().values())
    return (
        "There is no provider key. Run `rewindow auth add PROVIDER` in a terminal, or set one of "
        f"{variables} in the environment in which your editor starts this agent."
    )
