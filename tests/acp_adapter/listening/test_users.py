"""The file of tokens: who is found, what is refused, and what a change does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from acp_adapter.listening.users import TokenFile, User, UsersError, digest_of

ANN, BOB = User("ann", "ann"), User("bob", "bob")


@pytest.fixture
def file(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "state" / "acp-tokens")


def headers(secret: str, scheme: str = "Bearer") -> list[bytes]:
    return [f"{scheme} {secret}".encode()]


def test_a_token_is_found_by_its_secret(file: TokenFile) -> None:
    token, secret = file.add(ANN)
    assert file.find(headers(secret)) == token
    assert file.find(headers(secret, "bEARER")) == token
    for wrong in (headers(secret + "x"), headers(secret, "Basic"), [], [*headers(secret), *headers(secret)]):
        assert file.find(wrong) is None
    assert file.find(headers(token.digest)) is None


def test_the_file_is_private_and_has_no_secret(file: TokenFile) -> None:
    _, secret = file.add(ANN)
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert secret not in file.path.read_text()
    assert digest_of(secret) in file.path.read_text()


def test_another_process_adds_and_revokes(file: TokenFile) -> None:
    other = TokenFile(file.path)
    token, secret = other.add(ANN)
    assert file.find(headers(secret)) == token
    _, second = other.add(ANN)
    assert file.find(headers(second)) is not None
    assert other.revoke(token.id) == [token]
    assert file.find(headers(secret)) is None
    assert file.find(headers(second)) is not None
    assert len(other.revoke("ann")) == 1
    assert file.find(headers(second)) is None
    assert other.revoke("ann") == []


def test_users_are_apart(file: TokenFile) -> None:
    found = {file.add(user)[0].user for user in (ANN, BOB, ANN)}
    assert found == {ANN, BOB}
    assert len(file.revoke("ann")) == 2
    assert {token.user for token in file.tokens.values()} == {BOB}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622])
def test_a_file_that_others_can_read_or_write_admits_nobody(file: TokenFile, mode: int) -> None:
    _, secret = file.add(ANN)
    assert file.find(headers(secret)) is not None
    file.path.chmod(mode)
    with pytest.raises(UsersError, match="chmod 600"):
        file.find(headers(secret))


@pytest.mark.parametrize(
    "line",
    [
        "one ann ann",
        "one ann ann nothex",
        f"one ../ann ann {'0' * 64}",
        f"one ann an/n {'0' * 64}",
        f"x ann bob {'1' * 64}",
    ],
)
def test_a_line_that_is_wrong_admits_nobody(file: TokenFile, line: str) -> None:
    _, secret = file.add(ANN)
    file.path.write_text(file.path.read_text() + line + "\n")
    with pytest.raises(UsersError, match="line 3"):
        file.find(headers(secret))


@pytest.mark.parametrize("name", ["", "an n", "../x", "a" * 65, "-a", "ä"])
def test_names_are_checked(file: TokenFile, name: str) -> None:
    with pytest.raises(UsersError, match="is not a name"):
        file.add(User(name, "ann"))


def test_a_user_has_one_account(file: TokenFile) -> None:
    file.add(ANN)
    with pytest.raises(UsersError, match="has the account ann"):
        file.add(User("ann", "other"))


def test_an_account_has_one_user(file: TokenFile) -> None:
    token, _ = file.add(ANN)
    with pytest.raises(UsersError, match="ann and bob have the same account, ann"):
        file.add(User("bob", "ann"))
    file.path.write_text(f"{token.line}{token.line.replace(' ann ann ', ' bob ann ')}")
    with pytest.raises(UsersError, match="line 2: ann and bob have the same account"):
        _ = file.tokens


def test_what_is_no_file_is_refused(file: TokenFile) -> None:
    file.path.parent.mkdir()
    os.mkfifo(file.path, 0o600)
    with pytest.raises(UsersError, match="regular file"):
        _ = file.tokens
