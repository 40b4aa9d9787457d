"""The system's keyring, which keeps keys by the provider's name. Each request is a process with a deadline.

Must not know providers. Called on threads, by `session.keys` through its `Keyring`, and never at a start: the
keyring may have to be unlocked, and starting a process takes 0.2 s.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from ..core.errors import KeyringError
from ..core.import_path import SYSTEM_PATH, own_import_path
from ..core.settings import SERVED
from ..log.redaction import Redactor
from ..log.secrets import allowed_variables

SECONDS: Final = 15.0
"""How long it may take, including a person who unlocks it."""
NO_ANSWER: Final = f"no answer came within {SECONDS:g} s; unlock the keyring, and try again"
_CHILD: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "system_keyring_child.py")
_KEPT: Final = (
    "DBUS_SESSION_BUS_ADDRESS", "PYTHON_KEYRING_BACKEND", "GNOME_KEYRING_CONTROL", "KDE_FULL_SESSION",
    "KDE_SESSION_VERSION", "DESKTOP_SESSION", "XAUTHORITY", "GNUPGHOME", "GPG_TTY", "PASSWORD_STORE_DIR",
    "PASSWORD_STORE_GPG_OPTS",
)  # fmt: skip
"""Variables that say which keyring it is, and how to reach it."""
_PROPERTIES: Final = "KEYRING_PROPERTY_"
"""How the variables begin that configure a keyring. They are not the user's where a server has several."""


class SystemKeyring:
    """The keyring of the user that `environ` describes.

    Args:
        environ: the environment, of which the keyring gets what statements may see, and what it needs to be found.
        seconds: the deadline of each request.
        path: directories to import the keyring from, before this program's own; for tests.
    """

    def __init__(self, environ: Mapping[str, str], seconds: float = SECONDS, path: Sequence[str] = ()) -> None:
        self._environ = environ
        self._seconds = seconds
        self._path = tuple(path)

    def get(self, names: Iterable[str]) -> dict[str, str]:
        """Return the keys that it has for these names. Raises KeyringError."""
        keys: dict[str, str] = self._ask({"action": "get", "names": [*names]}).get("keys", {})
        return keys

    def set(self, name: str, key: str) -> None:
        """Keep a key. Raises KeyringError."""
        self._ask({"action": "set", "name": name, "key": key})

    def delete(self, name: str) -> None:
        """Remove a key, if there is one. Raises KeyringError."""
        self._ask({"action": "delete", "name": name})

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        is_own = SERVED not in self._environ
        kept = {
            name: value
            for name, value in self._environ.items()
            if name in _KEPT or (is_own and name.startswith(_PROPERTIES))
        }
        # The keyring's modules start programs by name, such as a compiler (`ctypes.util`) and `gpg`.
        variables = {**allowed_variables(self._environ), **kept, "PATH": SYSTEM_PATH}
        places = (*self._path, *own_import_path(sys.path, os.environ.get("PYTHONPATH", "")))
        command = (sys.executable, "-S", "-s", "-P", "-X", "utf8", _CHILD, sys.prefix, sys.exec_prefix, *places)
        try:
            with subprocess.Popen(  # noqa: S603 -- our own interpreter and script
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=variables,
                cwd="/",
                start_new_session=True,  # without the terminal, and to be ended with all that it starts
            ) as process:
                try:
                    answer, _ = process.communicate(json.dumps(request).encode(), self._seconds)
                except subprocess.TimeoutExpired:
                    raise KeyringError(NO_ANSWER) from None
                finally:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
            decoded: dict[str, Any] = json.loads(answer)
        except (OSError, ValueError) as error:
            raise KeyringError(f"the keyring process failed ({type(error).__name__})") from None
        if problem := decoded.get("error"):
            raise KeyringError(Redactor(filter(None, [request.get("key")])).redact(str(problem)))
        return decoded
