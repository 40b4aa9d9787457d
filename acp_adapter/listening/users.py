"""Who may connect: a file with a line for each token, its user, and the account that the user's host runs under.

    ID USER ACCOUNT SHA256

Only the digest of a token is stored. Tokens are 32 random bytes, so a digest without salt cannot be reversed, and
looking one up takes no time that depends on the secret. The file is read again whenever it has changed. Other accounts
may not read it, and a file that cannot be used admits nobody.

Must not know HTTP. Used by `app` and `command`.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

FILE_NAME: Final = "acp-tokens"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_ID_CHARS: Final = 8
_BYTES: Final = 32
_MOST_BYTES: Final = 1 << 20
_FIELDS: Final = 4
_HEADER: Final = "# Tokens for `rewindow-acp --listen`: id, user, account, SHA-256 of the token.\n"
SHARED: Final = (
    "{0} and {1} have the same account, {2}, and could read each other's files; give each user an account of its own"
)
NAME_RULE: Final = "use 1 to 64 ASCII letters, digits, `.`, `_` and `-`, a letter or digit first"


class UsersError(Exception):
    """Raised when the file of tokens cannot be used; the message says what to do."""


class TokensUnreadableError(UsersError):
    """Raised when the file cannot be read just now, as without a free descriptor. Nothing is known about its tokens."""


class User(Struct, frozen=True):
    """A user by name, and the account of the system that runs the user's host."""

    name: str
    account: str


class Token(Struct, frozen=True):
    """A token without its secret."""

    id: str
    user: User
    digest: str

    @property
    def line(self) -> str:
        return f"{self.id} {self.user.name} {self.user.account} {self.digest}\n"


def digest_of(secret: str) -> str:
    """Return what is stored of a token."""
    return hashlib.sha256(secret.encode()).hexdigest()


class TokenFile:
    """The tokens of a file."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self._seen: tuple[int, int, int] | None = None
        self._tokens: Mapping[str, Token] = {}

    @property
    def tokens(self) -> Mapping[str, Token]:
        """The tokens by digest, as the file has them now. Raises UsersError, TokensUnreadableError."""
        try:
            with open(os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
                status = os.fstat(file.fileno())
                seen = (status.st_ino, status.st_mtime_ns, status.st_size)
                self._check(status)
                if seen != self._seen:
                    self._tokens = self._parsed(file.read(_MOST_BYTES + 1))
                    self._seen = seen
        except OSError as error:
            kind = UsersError if isinstance(error, FileNotFoundError | PermissionError) else TokensUnreadableError
            raise kind(f"cannot read {self.path}: {error.strerror}") from None
        return self._tokens

    def _check(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise UsersError(f"{self.path} is not a regular file")
        if status.st_mode & 0o077:
            raise UsersError(f"other users can read {self.path}; run `chmod 600` on it")
        if status.st_uid != os.geteuid():
            raise UsersError(f"{self.path} belongs to another user")

    def _parsed(self, content: bytes) -> Mapping[str, Token]:
        if len(content) > _MOST_BYTES:
            raise UsersError(f"{self.path} has more than {_MOST_BYTES:,} bytes")
        found: dict[str, Token] = {}
        accounts: dict[str, str] = {}
        owners: dict[str, str] = {}
        for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
            fields = line.split()
            if not fields or line.startswith("#"):
                continue
            if len(fields) != _FIELDS or not all(map(_NAME.fullmatch, fields[:-1])) or not _DIGEST.fullmatch(fields[3]):
                raise UsersError(f"{self.path}, line {number}: write `ID USER ACCOUNT SHA256`")
            token = Token(fields[0], User(fields[1], fields[2]), fields[3])
            if accounts.setdefault(token.user.name, token.user.account) != token.user.account:
                raise UsersError(f"{self.path}, line {number}: {token.user.name} has another account above")
            if (owner := owners.setdefault(token.user.account, token.user.name)) != token.user.name:
                raise UsersError(f"{self.path}, line {number}: {SHARED.format(owner, *fields[1:3])}")
            found[token.digest] = token
        return found

    def find(self, authorization: Sequence[bytes]) -> Token | None:
        """Return the token that the `Authorization` headers of a request present. Raises UsersError."""
        if len(authorization) != 1:
            return None
        scheme, _, given = authorization[0].partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        return self.tokens.get(hashlib.sha256(given.strip()).hexdigest())

    # --- changes ------------------------------------------------------------------------------------------------------

    def add(self, user: User) -> tuple[Token, str]:
        """Add a token for a user, and return it with its secret, which is stored nowhere. Raises UsersError."""
        for name in (user.name, user.account):
            if not _NAME.fullmatch(name):
                raise UsersError(f"{name!r} is not a name: {NAME_RULE}")
        present = list(self.tokens.values()) if self.path.exists() else []
        other = next((each.user for each in present if each.user.name == user.name and each.user != user), None)
        if other is not None:
            raise UsersError(f"{user.name} has the account {other.account}; give the same one, or revoke {user.name}")
        owner = next((each.user for each in present if each.user.account == user.account and each.user != user), None)
        if owner is not None:
            raise UsersError(SHARED.format(owner.name, user.name, user.account))
        secret = secrets.token_urlsafe(_BYTES)
        digest = digest_of(secret)
        token = Token(digest[:_ID_CHARS], user, digest)
        self._write([*present, token])
        return token, secret

    def revoke(self, name: str) -> Sequence[Token]:
        """Remove the token of that id, or all tokens of that user, and return them. Raises UsersError."""
        present = list(self.tokens.values())
        revoked = [token for token in present if name in (token.id, token.user.name)]
        if revoked:
            self._write([token for token in present if token not in revoked])
        return revoked

    def _write(self, tokens: Sequence[Token]) -> None:
        """Replace the file atomically, because a server may read it."""
        partial = self.path.with_name(f"{self.path.name}.{secrets.token_hex(8)}")
        try:
            self.path.parent.mkdir(0o700, parents=True, exist_ok=True)
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(descriptor, "w", encoding="ascii") as file:
                file.write(_HEADER + "".join(token.line for token in tokens))
            partial.replace(self.path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise UsersError(f"cannot write {self.path}: {error.strerror}") from None
