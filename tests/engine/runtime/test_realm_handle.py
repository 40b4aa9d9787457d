"""The host's handle on a realm, with a zygote that starts nothing: a silent realm, and a closed one."""

from __future__ import annotations

import os
import socket
import threading
from typing import Any

import pytest

from engine.runtime import realm as module
from engine.runtime.realm import Realm

SECONDS = 10.0


class Zygote:
    """Accepts a realm, which then never answers."""

    brand = None
    stopped = False

    def __init__(self) -> None:
        self.realms: set[Realm] = set()
        self.stillnesses: list[list[socket.socket]] = []
        self.kept: list[int] = []
        self.kills = 0

    def ensure(self) -> None:
        """It is always there."""

    def begin_realm(self, descriptor: int) -> None:
        self.kept.append(os.dup(descriptor))

    def kill(self) -> None:
        self.kills += 1


def test_silent_realm_is_not_waited_for_without_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STILL_SECONDS", 0.05)
    zygote: Any = Zygote()
    realm = Realm(zygote)
    realm.ensure()
    answers: list[object] = []
    asking = threading.Thread(target=lambda: answers.append(realm.stand_still(own=True)), daemon=True)
    asking.start()
    asking.join(SECONDS)
    assert answers == [None]
    realm.close()
    for descriptor in zygote.kept:
        os.close(descriptor)


def test_kill_of_a_closed_realm_kills_its_zygote() -> None:
    zygote: Any = Zygote()
    realm = Realm(zygote)
    realm.close()
    realm.kill()
    assert zygote.kills == 1
