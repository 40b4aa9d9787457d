"""Which accounts may run the hosts of users."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from acp_adapter.listening import placement
from acp_adapter.listening.placement import check_accounts
from acp_adapter.listening.users import User, UsersError

OWN = pwd.getpwuid(os.geteuid()).pw_name
OTHER = "nobody" if OWN != "nobody" else "daemon"


def test_one_user_with_the_account_of_the_server(tmp_path: Path) -> None:
    check_accounts([User("ann", OWN)], tmp_path)


def test_two_users_with_one_account_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsersError, match="an account of its own"):
        check_accounts([User("ann", OWN), User("bob", OWN)], tmp_path)


def test_an_unknown_account_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsersError, match="no account"):
        check_accounts([User("ann", "no-such-account")], tmp_path)


def test_another_account_needs_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement.os, "geteuid", lambda: 4711)
    with pytest.raises(UsersError, match="only root"):
        check_accounts([User("ann", OTHER)], tmp_path)


def test_another_account_must_reach_the_state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement.os, "geteuid", lambda: 0)
    (tmp_path / "closed").mkdir(0o700)
    own = [User("ann", OTHER)] if pwd.getpwnam(OTHER).pw_uid else [User("ann", "daemon")]
    with pytest.raises(UsersError, match="closed to others"):
        check_accounts(own, tmp_path / "closed" / "state")
