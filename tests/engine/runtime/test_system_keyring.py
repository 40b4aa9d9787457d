"""The system's keyring in its own process, with the real package `keyring` and keyrings of ours."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from engine.core.errors import KeyringError
from engine.runtime.system_keyring import NO_ANSWER, SystemKeyring
from tests.support.keyrings import configure_keyring, make_keyring

KEY = "sk-of-the-keyring-0123456789"


def keyring(tmp_path: Path, kind: str, seconds: float = 20.0, **variables: str) -> SystemKeyring:
    make_keyring(tmp_path)
    environ = {"HOME": str(tmp_path), "PYTHON_KEYRING_BACKEND": f"fake_keyring.{kind}", **variables}
    return SystemKeyring(environ, seconds, path=(str(tmp_path),))


def test_key_is_kept_read_and_deleted(tmp_path: Path) -> None:
    asked = keyring(tmp_path, "Keyring")
    asked.set("anthropic", KEY)
    assert json.loads((tmp_path / "kept.json").read_text()) == {"rewindow/anthropic": KEY}
    assert asked.get(["anthropic", "openai"]) == {"anthropic": KEY}
    asked.delete("anthropic")
    asked.delete("anthropic")
    assert asked.get(["anthropic"]) == {}


def test_hanging_keyring_is_ended_at_its_deadline(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(KeyringError) as raised:
        keyring(tmp_path, "Hanging", seconds=5.0).get(["anthropic"])
    assert (tmp_path / "asked").exists()
    assert raised.value.reason == NO_ANSWER
    assert time.monotonic() - started < 30


def test_keyring_that_asks_for_a_password_fails_at_once(tmp_path: Path) -> None:
    with pytest.raises(KeyringError, match="EOFError"):
        keyring(tmp_path, "Asking").get(["anthropic"])


def test_error_contains_no_key(tmp_path: Path) -> None:
    with pytest.raises(KeyringError, match=r"OSError: \*\*\* is refused"):
        keyring(tmp_path, "Asking").set("anthropic", KEY)


def test_keyring_that_keeps_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyringError, match="was not stored"):
        keyring(tmp_path, "Forgetful").set("anthropic", KEY)


@pytest.mark.parametrize("kind", ["fail", "null"])
def test_system_without_keyring_has_no_keys_and_takes_none(tmp_path: Path, kind: str) -> None:
    absent = keyring(tmp_path, "Keyring", PYTHON_KEYRING_BACKEND=f"keyring.backends.{kind}.Keyring")
    assert absent.get(["anthropic"]) == {}
    absent.delete("anthropic")
    with pytest.raises(KeyringError, match="has no keyring"):
        absent.set("anthropic", KEY)


def test_broken_keyring_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyringError, match="cannot be imported"):
        keyring(tmp_path, "Keyring", PYTHON_KEYRING_BACKEND="no_such_module.Keyring").get(["anthropic"])


def test_keyring_gets_no_secrets_of_the_environment(tmp_path: Path) -> None:
    secrets = {"OPENAI_API_KEY": "sk-of-the-environment", "COMPANY_WORD": "secret", "REWINDOW_STORE": "postgresql:///x"}
    found = keyring(tmp_path, "Environment", **secrets, DISPLAY=":0").get(["x"])["x"]
    assert "'DISPLAY'" in found
    property_ = {"KEYRING_PROPERTY_FILE_PATH": "/x"}
    assert "KEYRING_PROPERTY" in keyring(tmp_path, "Environment", **property_).get(["x"])["x"]
    assert "KEYRING_PROPERTY" not in keyring(tmp_path, "Environment", **property_, REWINDOW_SERVED="1").get(["x"])["x"]
    assert not [name for name in secrets if name in found]


def test_users_configuration_chooses_the_keyring(tmp_path: Path) -> None:
    kept = configure_keyring(tmp_path)
    SystemKeyring({"HOME": str(tmp_path), "PATH": os.environ["PATH"]}).set("openai", KEY)
    assert KEY in kept.read_text()
