"""The address of a database, and what of it may be shown.

libpq reads passwords from the environment and from files, too, so an address rarely needs one. An address with one is a
secret: `shown` leaves the password out, and errors never quote an address that cannot be parsed. Imports nothing of
psycopg, because settings are checked in every process.
"""

from __future__ import annotations

import re
from typing import Final

from .errors import InvalidRequestError

SCHEMES: Final = ("postgresql://", "postgres://")
_ADDRESS: Final = re.compile(
    r"(?P<scheme>postgres(?:ql)?://)(?:(?P<user>[^:@/?#\s]*)(?::(?P<password>[^@/?#\s]*))?@)?"
    r"(?P<rest>[^@/?#\s]*(?:/[^@?#\s]*)?)(?P<query>\?[^@#\s]*)?"
)
_PORTS: Final = re.compile(r"[0-9]*")
_SECRET: Final = re.compile(
    r"(?<=[?&])((?:password|sslpassword|oauth_client_secret|scram_client_key|scram_server_key)=)[^&]*"
)
_PARAMETERS: Final = re.compile(r"\?(?:[a-z_]+=[^&]*(?:&|\Z))*")
"""With names as they are, because libpq decodes `p%61ssword`."""
INVALID: Final = (
    "the store's address is invalid; write postgresql://USER@HOST:PORT/DATABASE, with special characters of a name or "
    "password as %XX"
)


def is_address(text: str) -> bool:
    """Return whether `text` names a PostgreSQL database."""
    return text.startswith(SCHEMES)


def check_address(text: str) -> None:
    """Raise InvalidRequestError for an address that libpq would read otherwise than it is meant.

    Its messages would quote parts of a password that contains `@`, `/` or `:` as a host or port.
    """
    found = _ADDRESS.fullmatch(text)
    if found is None or not _PARAMETERS.fullmatch(found["query"] or "?"):
        raise InvalidRequestError(INVALID)
    for host in found["rest"].partition("/")[0].split(","):
        _, _, port = re.sub(r"\[[^]]*]", "", host).partition(":")
        if not _PORTS.fullmatch(port):
            raise InvalidRequestError(INVALID)


def has_password(text: str) -> bool:
    """Return whether an address contains a password."""
    found = _ADDRESS.fullmatch(text)
    return found is not None and bool(found["password"] or _SECRET.search(found["query"] or ""))


def shown(text: str) -> str:
    """Return the address without passwords; other text as it is."""
    found = _ADDRESS.fullmatch(text)
    if found is None or not _PARAMETERS.fullmatch(found["query"] or "?"):
        return "postgresql://..." if is_address(text) else text
    user = f"{found['user']}@" if found["user"] else ""
    query = _SECRET.sub(r"\1...", found["query"] or "")
    return f"{found['scheme']}{user}{found['rest']}{query}"
