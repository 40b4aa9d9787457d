"""Keys of providers: where they come from, which one wins, and when stored ones are read."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from engine.context.model import ModelUnusableError
from engine.context.models.providers import configured, setup_of
from engine.core.errors import InvalidRequestError, KeyringError
from engine.core.key_file import StoredKeys, change_keys, key_path, read_keys
from engine.core.settings import Settings
from engine.session.keys import (
    EMPTY,
    ENVIRONMENT,
    FILE,
    KEYRING,
    NOT_PRINTABLE,
    TOO_LONG,
    Keys,
    clean_key,
    missing_keys,
    stored_name,
)
from engine.session.model_choice import ConfiguredModels

pytestmark = pytest.mark.anyio

KEY = "sk-stored-0123456789"
OTHER = "sk-another-0123456789"


class FakeKeyring:
    """Counts what it is asked. With a `reason` it fails."""

    def __init__(self, reason: str = "", **keys: str) -> None:
        self.reason = reason
        self.keys = dict(keys)
        self.asked = 0

    def _use(self) -> None:
        self.asked += 1
        if self.reason:
            raise KeyringError(self.reason)

    def get(self, names: Iterable[str]) -> dict[str, str]:
        self._use()
        return {name: self.keys[name] for name in names if name in self.keys}

    def set(self, name: str, key: str) -> None:
        self._use()
        self.keys[name] = key

    def delete(self, name: str) -> None:
        self._use()
        self.keys.pop(name, None)


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path)}


def test_environment_wins_over_stored_keys(home: dict[str, str]) -> None:
    home["GEMINI_API_KEY"] = "of the environment"
    change_keys(home, lambda _: StoredKeys({"google": KEY, "openai": KEY}))
    keys = Keys(home, keyring=FakeKeyring())
    assert keys.known == {"google": ENVIRONMENT, "openai": FILE}
    found = configured(keys)
    assert found["google"].key(keys) == "of the environment"
    assert found["openai"].key(keys) == KEY
    assert dict(keys) == {**home, "OPENAI_API_KEY": KEY}


def test_empty_variable_is_no_key(home: dict[str, str]) -> None:
    home["OPENAI_API_KEY"] = ""
    change_keys(home, lambda _: StoredKeys({"openai": f" {KEY}\n"}))
    assert Keys(home, keyring=FakeKeyring())["OPENAI_API_KEY"] == KEY


def test_keyring_is_asked_only_for_what_the_file_lists(home: dict[str, str]) -> None:
    keyring = FakeKeyring(anthropic=KEY, openai=OTHER)
    keys = Keys(home, keyring=keyring)
    keys.read()
    assert (keyring.asked, keys.known) == (0, {})
    change_keys(home, lambda _: StoredKeys({}, ("anthropic",)))
    assert keys.is_behind
    keys.read()
    assert (keyring.asked, keys.known) == (1, {"anthropic": KEYRING})
    assert not keys.is_behind
    keys.read()
    assert keyring.asked == 1
    keys.read(everywhere=True)
    assert keys.known == {"anthropic": KEYRING, "openai": KEYRING}


def test_added_key_is_used_learned_and_seen_by_others(home: dict[str, str]) -> None:
    keyring = FakeKeyring()
    learned: list[str] = []
    keys, others = Keys(home, learned.extend, keyring), Keys(home, keyring=keyring)
    assert keys.add("anthropic", KEY) == ""
    assert keyring.keys == {"anthropic": KEY}
    assert KEY not in key_path(home).read_text()
    assert keys["ANTHROPIC_API_KEY"] == KEY
    assert KEY in learned
    assert others.is_behind
    others.read()
    assert others["ANTHROPIC_API_KEY"] == KEY


def test_new_key_replaces_the_earlier_one_in_other_processes(home: dict[str, str]) -> None:
    keyring = FakeKeyring()
    keys, others = Keys(home, keyring=keyring), Keys(home, keyring=keyring)
    keys.add("anthropic", KEY)
    others.read()
    keys.add("anthropic", OTHER)
    others.read()
    assert others["ANTHROPIC_API_KEY"] == OTHER


def test_key_is_in_the_file_if_the_keyring_fails(home: dict[str, str]) -> None:
    keys = Keys(home, keyring=FakeKeyring("it is locked"))
    assert "it is locked" in keys.add("anthropic", KEY)
    assert read_keys(home) == StoredKeys({"anthropic": KEY})
    assert keys.known == {"anthropic": FILE}


def test_key_has_one_place(home: dict[str, str]) -> None:
    keys = Keys(home, keyring=FakeKeyring())
    keys.add("anthropic", KEY, in_file=True)
    keys.add("anthropic", OTHER)
    assert read_keys(home) == StoredKeys({}, ("anthropic",))
    keys.add("anthropic", KEY, in_file=True)
    assert read_keys(home) == StoredKeys({"anthropic": KEY})
    assert keys["ANTHROPIC_API_KEY"] == KEY


def test_removed_keys_are_gone(home: dict[str, str]) -> None:
    keyring = FakeKeyring()
    keys = Keys(home, keyring=keyring)
    keys.add("anthropic", KEY)
    keys.add("openai", OTHER, in_file=True)
    keys.remove(["anthropic"])
    assert (keyring.keys, keys.known) == ({}, {"openai": FILE})
    keys.forget()
    assert (keys.known, read_keys(home)) == ({}, StoredKeys())


def test_key_that_the_keyring_keeps_is_forgotten_and_reported(home: dict[str, str]) -> None:
    keyring = FakeKeyring()
    keys = Keys(home, keyring=keyring)
    keys.add("anthropic", KEY)
    keyring.reason = "it is locked"
    with pytest.raises(KeyringError, match="it is locked"):
        keys.forget()
    assert keys.known == {}
    assert read_keys(home).keyring == ("anthropic",)


def test_unreadable_file_and_keyring_are_problems(home: dict[str, str]) -> None:
    keyring = FakeKeyring("it is locked", anthropic=KEY)
    change_keys(home, lambda _: StoredKeys({}, ("anthropic",)))
    keys = Keys(home, keyring=keyring)
    keys.read()
    assert "it is locked" in keys.problem
    assert keys.known == {}
    assert keys.is_behind
    keyring.reason = ""
    keys.read()
    assert (keys.problem, keys.known) == ("", {"anthropic": KEYRING})
    key_path(home).write_text("no json")
    keys.look()
    assert "repair or remove" in keys.problem
    with pytest.raises(InvalidRequestError, match="repair or remove"):
        keys.add("anthropic", KEY)


def test_reading_never_waits_for_the_keyring(home: dict[str, str]) -> None:
    begun, end = threading.Event(), threading.Event()

    class Slow(FakeKeyring):
        def get(self, names: Iterable[str]) -> dict[str, str]:
            begun.set()
            end.wait(20)
            return super().get(names)

    keys = Keys(home, keyring=Slow(anthropic=KEY))
    asking = threading.Thread(target=lambda: keys.read(everywhere=True))
    asking.start()
    assert begun.wait(20)
    change_keys(home, lambda _: StoredKeys({"openai": OTHER}))
    keys.look()
    assert keys.known == {"openai": FILE}
    end.set()
    asking.join(20)
    assert keys.known == {"anthropic": KEYRING, "openai": FILE}


def test_setup_is_done_with_a_stored_key(home: dict[str, str]) -> None:
    keys = Keys(home, keyring=FakeKeyring())
    before = setup_of("provider:anthropic:m", keys)
    assert before is not None
    assert (before.is_done, "rewindow auth add anthropic" in before.sentence) == (False, True)
    assert "rewindow auth add" in missing_keys(keys)
    keys.add("anthropic", KEY)
    after = setup_of("provider:anthropic:m", keys)
    assert after is not None
    assert after.is_done
    assert missing_keys(keys) == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", EMPTY),
        (" \r\n\t", EMPTY),
        ("sk-a sk-b", NOT_PRINTABLE),
        ("sk-a\nsk-b", NOT_PRINTABLE),
        ("sk-\x00\x1b[A", NOT_PRINTABLE),
        ("sk-\u00e9\u200b", NOT_PRINTABLE),
        ("k" * 20_000, TOO_LONG),
    ],
)
def test_what_is_no_key_is_refused_without_showing_it(text: str, said: str) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        clean_key(text)
    assert str(raised.value) == said


def test_pasted_key_loses_blanks_around_it() -> None:
    assert clean_key(f"  {KEY}\r\n") == KEY


def test_names_of_providers_mean_one_key() -> None:
    assert [stored_name(name) for name in ("Gemini", "openai-chat", "openai ", "anthropic")] == [
        "google",
        "openai",
        "openai",
        "anthropic",
    ]
    with pytest.raises(InvalidRequestError, match="anthropic, google"):
        stored_name("ollama")


async def test_model_gets_a_key_that_another_process_replaced(home: dict[str, str], tmp_path: Path) -> None:
    keyring = FakeKeyring()
    keys, others = Keys(home, keyring=keyring), Keys(home, keyring=keyring)
    models = ConfiguredModels(Settings(state_dir=tmp_path), keys, lambda *_: None)
    others.add("anthropic", KEY)
    await models.ready("provider:anthropic:m")
    assert keys["ANTHROPIC_API_KEY"] == KEY
    others.add("anthropic", OTHER)
    await models.ready("provider:openai:m")
    assert keys["ANTHROPIC_API_KEY"] == KEY
    await models.ready("provider:anthropic:m")
    assert keys["ANTHROPIC_API_KEY"] == OTHER


async def test_key_that_the_keyring_has_counts_until_it_was_asked(home: dict[str, str], tmp_path: Path) -> None:
    change_keys(home, lambda _: StoredKeys({}, ("anthropic",)))
    keyring = FakeKeyring("it is locked", anthropic=KEY)
    models = ConfiguredModels(Settings(state_dir=tmp_path), Keys(home, keyring=keyring), lambda *_: None)
    before = models.setup_of("provider:anthropic:m")
    assert before is not None
    assert before.is_done
    with pytest.raises(ModelUnusableError, match="it is locked"):
        await models.ready("provider:anthropic:m")
    keyring.reason = ""
    await models.ready("provider:anthropic:m")
    after = models.setup_of("provider:anthropic:m", is_read=True)
    assert after is not None
    assert after.is_done


def test_who_waits_for_a_failing_keyring_does_not_ask_again(home: dict[str, str]) -> None:
    change_keys(home, lambda _: StoredKeys({}, ("anthropic",)))
    asked, answers = threading.Event(), threading.Event()

    class Slow(FakeKeyring):
        def _use(self) -> None:
            asked.set()
            assert answers.wait(5)
            super()._use()

    keyring = Slow("no answer")
    keys = Keys(home, keyring=keyring)
    readers = [threading.Thread(target=keys.read) for _ in range(2)]
    readers[0].start()
    assert asked.wait(5)
    readers[1].start()
    time.sleep(0.05)  # until it waits
    answers.set()
    for each in readers:
        each.join(5)
    assert (keyring.asked, keys.problem != "") == (1, True)
    keys.read()
    assert keyring.asked == 2
