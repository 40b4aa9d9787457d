"""The files that libpq reads for a store's address: passwords, services, and certificates.

Variables name them, parameters of the address in REWINDOW_STORE, and services in a service file; else they have a fixed
name. `log.secrets` hides the passwords in them, and `files.protected` asks before they are written. Reads at most
MOST_BYTES of a file. Must not know psycopg, as most processes have no store in PostgreSQL.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import unquote

from .store_address import is_address

MOST_BYTES: Final = 1 << 20
_OF_PASSWORDS: Final = "passfile"
_OF_SERVICES: Final = "servicefile"
_PATHS: Final = (_OF_PASSWORDS, _OF_SERVICES, "sslrootcert", "sslcert", "sslkey", "sslcrl", "sslcrldir")
SYSTEM_FOLDERS: Final = ("/etc/postgresql-common", "/etc/postgresql", "/usr/local/pgsql/etc", "/etc")
"""Where a libpq may look for services without PGSYSCONFDIR: that of the wheel of psycopg, of Debian, and of others."""
_OF_SYSTEM: Final = "system"
"""Stands for the system's certificates instead of a path."""
_SECRETS: Final = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
_PASSWORD: Final = re.compile(r"(?m)^(?!#)(?:(?:\\.|[^:\\\n])*:){4}(((?:\\.|[^:\\\n])*).*)$")
"""The fifth field of a line, and the rest of the line: libpq ends a password at a colon, other programs may not."""
_SETTING: Final = re.compile(r"(?m)^[ \t\v\f\r]*([a-z_]+)=(.+)$")
"""A line of a service file. libpq removes what is blank before it and after it, and nothing else."""


def named_paths(environ: Mapping[str, str]) -> list[str]:
    """Return the paths that the address in REWINDOW_STORE names, and the services that it may use."""
    in_services = (each for path in _service_files(environ) for each in _settings(path) if each[0] in _PATHS)
    return [value for _, value in (*_parameters(environ), *in_services) if value != _OF_SYSTEM]


def passwords(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the passwords in the files, also as they are escaped there."""
    pass_files = [environ.get("PGPASSFILE") or _in_home(environ, ".pgpass")]
    pass_files += [value for name, value in _parameters(environ) if name == _OF_PASSWORDS]
    for path in _service_files(environ):
        for name, value in _settings(path):
            if name in _SECRETS:
                yield value
            elif name == _OF_PASSWORDS:
                pass_files.append(value)
    for path in dict.fromkeys(pass_files):
        for rest, password in _PASSWORD.findall(_text(path)):
            for found in dict.fromkeys((password.strip(), rest.strip())):
                yield found
                yield re.sub(r"\\(.)", r"\1", found)


def has_service_password(environ: Mapping[str, str], service: str) -> bool:
    """Return whether a service has a password, which counts before that in PGPASSWORD."""
    section = re.compile(rf"(?ms)^[ \t]*\[{re.escape(service)}\][ \t\r]*$(.*?)(?=^[ \t]*\[|\Z)")
    texts = (section.search(_text(path)) for path in _service_files(environ))
    return any(name == "password" for text in texts if text for name, _ in _SETTING.findall(text[1]))


def _service_files(environ: Mapping[str, str]) -> list[str]:
    folders = [environ["PGSYSCONFDIR"]] if environ.get("PGSYSCONFDIR") else SYSTEM_FOLDERS
    return [
        environ.get("PGSERVICEFILE") or _in_home(environ, ".pg_service.conf"),
        *(os.path.join(folder, "pg_service.conf") for folder in folders),
        *(value for name, value in _parameters(environ) if name == _OF_SERVICES),
    ]


def _parameters(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the parameters of the address that are paths. libpq decodes names and values, but no `+`."""
    address = environ.get("REWINDOW_STORE", "")
    query = address.partition("?")[2] if is_address(address) else ""
    pairs = (each.partition("=") for each in query.split("&"))
    return [(unquote(name), unquote(value)) for name, _, value in pairs if unquote(name) in _PATHS and value]


def _settings(path: str) -> list[tuple[str, str]]:
    return [(name, value.strip()) for name, value in _SETTING.findall(_text(path))]


def _in_home(environ: Mapping[str, str], name: str) -> str:
    return os.path.join(environ.get("HOME") or _home_of_account(), name)


def _home_of_account() -> str:
    with suppress(KeyError):
        return pwd.getpwuid(os.geteuid()).pw_dir
    return "/"


def _text(path: str) -> str:
    """Return the beginning of a file; empty if it cannot be read."""
    with suppress(OSError, ValueError), open(path, "rb", opener=_open) as file:
        return (file.read(MOST_BYTES) or b"").decode("utf-8", "replace")
    return ""


def _open(path: str, flags: int) -> int:
    """Open a path; a pipe would wait for a writer otherwise."""
    return os.open(path, flags | os.O_NONBLOCK)
