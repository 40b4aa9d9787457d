"""Keyrings of tests: modules that the real `keyring` package imports in its own process, and their configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_IN_FILE: Final = """
import json, os, pathlib
from keyring.backend import KeyringBackend

PLACE = pathlib.Path(__file__).with_name("kept.json")

class Keyring(KeyringBackend):
    priority = 9

    def _all(self):
        return json.loads(PLACE.read_text()) if PLACE.exists() else {}

    def get_password(self, service, username):
        print("a keyring that prints", flush=True)
        return self._all().get(f"{service}/{username}")

    def set_password(self, service, username, password):
        PLACE.write_text(json.dumps({**self._all(), f"{service}/{username}": password}))

    def delete_password(self, service, username):
        PLACE.write_text(json.dumps({k: v for k, v in self._all().items() if k != f"{service}/{username}"}))

class Hanging(Keyring):
    def get_password(self, service, username):
        import time
        (PLACE.parent / "asked").touch()
        time.sleep(600)

    set_password = delete_password = get_password

class Asking(Keyring):
    def get_password(self, service, username, password=None):
        import getpass
        return getpass.getpass("Password of the keyring: ")

    def set_password(self, service, username, password):
        raise OSError(f"{password} is refused")

class Forgetful(Keyring):
    def set_password(self, service, username, password):
        pass

class Environment(Keyring):
    def get_password(self, service, username):
        return repr(sorted(os.environ))
"""


def make_keyring(folder: Path) -> Path:
    """Writes the module `fake_keyring` into the directory; its `Keyring` keeps keys in the file that is returned."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "fake_keyring.py").write_text(_IN_FILE)
    return folder / "kept.json"


def configure_keyring(home: Path, kind: str = "Keyring") -> Path:
    """Makes it the keyring of the user whose home that is, as a configuration of `keyring` does."""
    kept = make_keyring(home / "keyring")
    place = home / ".config" / "python_keyring"
    place.mkdir(parents=True, exist_ok=True)
    lines = f"[backend]\ndefault-keyring=fake_keyring.{kind}\nkeyring-path={home / 'keyring'}\n"
    (place / "keyringrc.cfg").write_text(lines)
    return kept
