"""Secrets in the environment, in the configuration of MCP servers, and on command lines: which names, which values.

Statements never get these variables, and their values are removed from texts. Owns the names that look secret
(`docs/configuration.md` lists them), which part of a value is secret, and where a command line may contain one: in an
option, an assignment (`env API_KEY=V agent`), a header, a URL, JSON, or a shell command with any of them. Must not know
sessions, commands, nor how a value is found in a text, which is `redaction`. Used to compose sessions, by imports, the
commands for people, `doctor`, and `rewindow-conformance`, which gets the commands of foreign programs.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import translate
from itertools import zip_longest
from typing import Final, cast
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

from ..core import libpq_files
from ..core.key_file import FileValues
from ..core.mcp_servers import HttpServer, McpServer, StdioServer
from ..core.settings import SERVED
from .redaction import SHORTEST, Redactor, is_token

_ALLOWED: Final = frozenset((
    "PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR", "TMPDIR", "USER", "LOGNAME", "SHELL",
    "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "DISPLAY", "WAYLAND_DISPLAY",
    "EDITOR", "PAGER", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS",
))  # fmt: skip
_ALLOWED_PREFIXES: Final = ("LC_", "XDG_")
SECRET_NAMES: Final = (
    "*_KEY", "*APIKEY*", "*API_KEY*", "*ACCESSKEY*", "*ACCESS_KEY*", "*PRIVATEKEY*", "*PRIVATE_KEY*", "*TOKEN*",
    "*SECRET*", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*", "*CREDENTIAL*", "*_PASS", "*_PWD", "OTEL_*HEADERS",
    "AUTH", "AUTH_*", "*_AUTH", "*_AUTH_*", "PAT", "PAT_*", "*_PAT", "*_PAT_*",
)  # fmt: skip
"""Patterns of names whose values are secret, in any case; `*` stands for any characters."""
NEVER_SECRET: Final = ("PWD", "OLDPWD", "*ASKPASS")
"""Names that match one of these patterns but have paths as values."""
_HEADERS: Final = re.compile(r"OTEL_.*HEADERS", re.IGNORECASE)
"""The variables with headers of telemetry."""
_NAMED_PART: Final = re.compile(r"\A[\w.@+-]+[:=]\s*(.+)\Z")
"""What follows a name in a value, such as `user:KEY`, `token=KEY` or `X-Token: KEY`."""
_BETWEEN_PIECES: Final = re.compile(r"[;,\s|&()<>]+")
"""Between the keys of a list, the fields of a connection string, and lines of variables."""
_NAMED_PIECE: Final = re.compile(r"([\w.@+-]+)[:=](?!//)(=*[^=].*)")
_QUOTES: Final = ("'", '"')
_SCHEMES: Final = ("bearer", "basic", "token")
_QUOTED_END: Final = "\\n"
"""A line end in a value of one line, such as a PEM key."""
_NOT: Final = "!"
"""Before a configured pattern: names that are not secret."""
_WORD: Final = re.compile(r"[a-z]+(?:[_-][a-z]+)*|[A-Z]+(?:_[A-Z]+)*|[A-Z][a-z]+")
_PLAIN_HEADERS: Final = frozenset(("accept", "accept-language", "content-type", "user-agent", "mcp-protocol-version"))
_CREDENTIALS_IN_URL: Final = re.compile(r"(?://|\A)[^/\s]*@")
_PASSWORDS_IN_URL: Final = (
    re.compile(r"://[^/\s:]*:([^/\s@]+)@"),
    re.compile(r"://[^/\s:]*:([^/\s]+)@"),
)
"""Up to the first and up to the last `@`, because people do not escape one in a password."""
_PARAMETER_IN_URL: Final = re.compile(r"[?&#;]([\w.%-]+)=([^&#;\s]+)")
_RANDOM_PART: Final = 16
"""The length from which a part of a URL's path may be a key, as in the addresses of web hooks."""
_RANDOM_NAME: Final = 14
"""The length from which a name with digits and both cases is more likely a part of a key than of a path."""
_MIXED: Final = tuple(map(re.compile, ("[a-z]", "[A-Z]", "[0-9]")))
_PROXY: Final = re.compile(r"(?i).*_proxy")
_PASSWORD_OF_PROXY: Final = re.compile(r"\A(?:[\w+.-]+://)?[^/\s:]*:(\S+)@")
"""The password in an address of a proxy, which usually has no scheme. Up to the last `@`, even behind a slash."""
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][\w.]*)=(.+)", re.DOTALL)
_HEADER: Final = re.compile(r"([A-Za-z][A-Za-z0-9_-]*):(?!//)\s*(.+)", re.DOTALL)
_HEADER_OPTION: Final = re.compile(r"-H|--?[\w-]*header[\w-]*", re.IGNORECASE)
_HEADER_NAMES: Final = ("AUTHORIZATION", "*_AUTHORIZATION", "*COOKIE*")
"""Further patterns of secret names, for headers."""
_VARIABLE_OPTIONS: Final = ("--env", "-e")
_DEEPEST: Final = 4
"""How many nested shell commands are searched."""


class Secrets(Struct, frozen=True):
    """The secrets of an environment.

    `values` are removed from texts. `names` are their variables, sorted; `short` are those whose values are too short
    to be removed, and `words` those whose values look like a word, which is then removed from all texts.
    """

    values: tuple[str, ...]
    names: tuple[str, ...]
    short: tuple[str, ...]
    words: tuple[str, ...]


def allowed_variables(environ: Mapping[str, str], more_names: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables that statements may see: an allow-list, without names and values that look secret.

    A value that is another variable's secret is left out, too.
    """
    more_names = tuple(more_names)
    is_secret = _matcher((*SECRET_NAMES, *_configured(more_names)[0]))
    secrets = frozenset(find_secrets(environ, more_names).values)
    return {
        name: value
        for name, value in environ.items()
        if (name in _ALLOWED or name.startswith(_ALLOWED_PREFIXES))
        and not is_secret.match(name)
        and value not in secrets
        and not _CREDENTIALS_IN_URL.search(value)
        and not (_PROXY.fullmatch(name) and ("@" in value or "?" in value))
    }


def find_secrets(environ: Mapping[str, str], more_names: Iterable[str] = ()) -> Secrets:
    """Find the secrets in an environment: values of names that look secret, and passwords in URLs of any name.

    Args:
        environ: the process's environment.
        more_names: configured patterns in addition to SECRET_NAMES, or with a `!`, to NEVER_SECRET.
    """
    more, fewer = _configured(more_names)
    is_secret, is_none = _matcher((*SECRET_NAMES, *more)), _matcher((*NEVER_SECRET, *fewer))
    found: dict[str, list[str]] = {}
    for name, value in environ.items():
        own = [value] if is_secret.match(name) and not is_none.match(name) and not _is_path(value) else []
        parts = map(str.strip, _parts_of(name, value))
        own += [part for part in parts if own and part not in own and len(part) >= SHORTEST]
        passwords = [password for pattern in _PASSWORDS_IN_URL for password in pattern.findall(value)]
        if _PROXY.fullmatch(name):
            passwords += _PASSWORD_OF_PROXY.findall(value)
        if "://" in value:
            passwords += [text for key, text in _PARAMETER_IN_URL.findall(value) if is_secret.match(_unquoted(key))]
        own += [form for password in dict.fromkeys(passwords) for form in {password, _unquoted(password)}]
        if any(own):
            found[name] = own
    return Secrets(
        values=tuple(dict.fromkeys(value for own in found.values() for value in own if len(value.strip()) >= SHORTEST)),
        names=tuple(sorted(found)),
        short=tuple(
            sorted(name for name, own in found.items() if any(0 < len(value.strip()) < SHORTEST for value in own))
        ),
        words=tuple(sorted(name for name, own in found.items() if any(map(_is_word, own)))),
    )


def redactor_of(environ: Mapping[str, str], more_names: Iterable[str] = ()) -> Redactor:
    """Return the redactor of the secrets of `environ`, see `find_secrets`, and of the user's files with secrets.

    It also replaces the keys that other programs store in the file of keys later.
    """
    values = find_secrets(environ, more_names).values
    return Redactor([*values, *libpq_files.passwords(environ)], FileValues(environ), is_others=SERVED in environ)


def server_secrets(server: McpServer, environ: Mapping[str, str], more_names: Iterable[str] = ()) -> list[str]:
    """Return the secrets in the configuration of an MCP server.

    All values of its headers and variables are secret, except paths, words, and values that this process has in its
    environment under a name that does not look secret. In its arguments and URL, values with secret-looking names are.
    """
    if isinstance(server, StdioServer):
        known = set(environ.values())
        is_secret = _matcher((*SECRET_NAMES, *_configured(more_names)[0]))
        variables = {name: value for name, value in server.env.items() if value not in known or is_secret.match(name)}
        given = [each for name, value in variables.items() for each in (value, *_parts_of(name, value))]
        named = [*find_secrets(variables, more_names).values, *command_line_secrets(server.args, environ, more_names)]
    else:
        headers = {name: value for name, value in server.headers.items() if name.lower() not in _PLAIN_HEADERS}
        given = [each for name, value in headers.items() for each in (value, *_parts_of(name, value))]
        given += [value.partition(" ")[2] for value in headers.values()]
        try:
            address = urlsplit(server.url)
        except ValueError:  # whatever it is meant to be
            named = [server.url]
        else:
            given += (part for part in address.path.split("/") if len(part) >= _RANDOM_PART)
            fields = (*parse_qsl(address.query), *parse_qsl(address.fragment), ("URL", server.url))
            named = [
                each
                for name, value in fields
                for each in find_secrets({_variable_name(name): value}, more_names).values
            ]
    secret = [value for each in given for value in (each, *_texts_in(each)) if not _is_plain(value)]
    return [*secret, *named]


def _variable_name(name: str) -> str:
    return name.strip("-").replace("-", "_").upper()


def _texts_in(value: str) -> list[str]:
    """Return the texts in a value that is JSON."""
    stack = _json_in(value)
    found: list[str] = []
    while stack:
        each = stack.pop()
        if isinstance(each, str):
            found += [each, each.partition(" ")[2]]
        elif isinstance(each, dict):
            stack += cast("dict[str, object]", each).values()
        elif isinstance(each, list):
            stack += cast("list[object]", each)
    return found


def _parts_of(name: str, value: str) -> Iterable[str]:
    """Yield the parts of a secret value that programs use or print alone."""
    for quote in _QUOTES:
        if value.strip()[:1] == value.strip()[-1:] == quote:
            yield value.strip()[1:-1]
    yield from _without_scheme(value)
    if _QUOTED_END in value:
        yield value.replace(_QUOTED_END, "\n")
    is_secret = _matcher(SECRET_NAMES)
    yield from (text for name, text in _fields(value) if is_secret.match(name) or (not name and is_token(text)))
    yield from () if _json_in(value) else _pieces(value, is_secret)
    for named in _named_in_headers(value) if _HEADERS.fullmatch(name) else _NAMED_PART.findall(value.strip()):
        yield from (each for each in (named, *_without_scheme(named)) if not _is_plain(each))


def _without_scheme(value: str) -> Iterable[str]:
    scheme, space, rest = value.strip().partition(" ")
    if space and scheme.lower() in _SCHEMES:
        yield rest


def _named_in_headers(value: str) -> Iterable[str]:
    """Yield the values of `name=value,name=value`, in which characters may be written as `%XX`."""
    for name, _, text in (each.partition("=") for each in value.split(",")):
        if _unquoted(name).strip().lower() not in _PLAIN_HEADERS:
            yield from dict.fromkeys((text, _unquoted(text)))


def _pieces(value: str, is_secret: re.Pattern[str], *, only_named: bool = False) -> Iterable[str]:
    """Yield the keys in a list, in a connection string (`User=me;Password=KEY`), and in lines of variables.

    With `only_named`, what looks like a key but has no name that does is left out.
    """
    for piece in _BETWEEN_PIECES.split(value.strip()):
        name, text = "", piece.strip("".join(_QUOTES))
        while named := _NAMED_PIECE.fullmatch(text):
            name, text = named[1], named[2].strip("".join(_QUOTES))
            if (is_secret.match(name) or (is_token(text) and not only_named)) and not _is_plain(text):
                yield text
        if not name and not only_named and is_token(text) and not _is_plain(text):
            yield text


def _json_in(value: str) -> list[object]:
    """Return the object or array in a value, as the only item of a list; empty for another value."""
    try:
        return [json.loads(value)] if value.lstrip()[:1] in ("{", "[") else []
    except (ValueError, RecursionError):
        return []


def _is_plain(value: str) -> bool:
    return len(value.strip()) < SHORTEST or _is_word(value) or _is_path(value) or _may_be_path(value)


def _may_be_path(value: str) -> bool:
    """Return whether the value is like an absolute path, or the rest of a URL. A key may begin with a slash, too."""
    return os.path.isabs(os.path.expanduser(value)) and not any(map(_is_of_key, value.split(os.sep)))


def _is_of_key(part: str) -> bool:
    is_mixed = all(pattern.search(part) for pattern in _MIXED)
    return part.endswith("=") or (is_mixed and (len(part) >= _RANDOM_NAME or "+" in part))


def _configured(patterns: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the patterns of secret names, and of names that are not secret."""
    patterns = list(patterns)
    return (
        [pattern for pattern in patterns if not pattern.startswith(_NOT)],
        [pattern.removeprefix(_NOT).strip() for pattern in patterns if pattern.startswith(_NOT)],
    )


def _is_word(value: str) -> bool:
    return len(value) >= SHORTEST and _WORD.fullmatch(value) is not None


def _matcher(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)), re.IGNORECASE)


def _is_path(value: str) -> bool:
    # Absolute paths only: whether a value is secret must not depend on the files in the current directory.
    try:
        return os.path.isabs(path := os.path.expanduser(value)) and os.path.exists(path)
    except ValueError:
        return False


def _unquoted(text: str) -> str:
    escaped = re.sub(rb"%([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), text.encode("utf-8", "replace"))
    return escaped.decode("utf-8", "replace")


# --- command lines ----------------------------------------------------------------------------------------------------


def command_line_secrets(words: Sequence[str], environ: Mapping[str, str], more_names: Iterable[str] = ()) -> list[str]:
    """Return the secret values on a command line.

    Args:
        words: the command line, with the options in front of the program.
        environ: the environment of this process; a value that it has under a plain name is not secret.
        more_names: patterns of secret names from the configuration, as in `find_secrets`.
    """
    names = (*more_names, *_HEADER_NAMES)
    is_secret = _matcher((*SECRET_NAMES, *_configured(names)[0]))
    found: list[str] = []
    for option, following in _pairs(words):
        for name, value in _named(option, following):
            found += find_secrets({_variable_name(name): value}, names).values
        found += _pieces(option, is_secret, only_named=True)
        if option in _VARIABLE_OPTIONS and (variable := _ASSIGNMENT.fullmatch(following)):
            # A variable given by hand counts as secret, whatever its name.
            server = StdioServer(name="", command="", env={variable[1]: variable[2]})
            found += server_secrets(server, environ, more_names)
        if _HEADER_OPTION.fullmatch(option) and (header := _HEADER.fullmatch(following)):
            found += server_secrets(HttpServer(name="", url="", headers={header[1]: header[2]}), environ, more_names)
        if "://" in option:
            found += server_secrets(HttpServer(name="", url=option), environ, more_names)
    return list(dict.fromkeys(found))


def _pairs(words: Sequence[str], depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield each word with the next one, `--option=value` as two, and the words of nested shell commands."""
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        name, equals, value = word.partition("=")
        if word.startswith("-") and equals:
            yield name, value
            yield value, ""
        else:
            yield word, following
        if depth < _DEEPEST and re.search(r"\s", word):
            yield from _pairs(_words_of(word), depth + 1)


def _words_of(text: str) -> list[str]:
    words = shlex.shlex(text, posix=True, punctuation_chars=True)
    words.whitespace_split, words.commenters = True, ""
    try:
        return list(words)
    except ValueError:
        return text.split()


def _named(word: str, following: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values in a word."""
    if word.startswith("-"):
        yield word, following
    elif named := _ASSIGNMENT.fullmatch(word) or _HEADER.fullmatch(word):
        yield named[1], named[2]
    elif "://" in word:
        yield "", word  # for a password in it
    yield from _fields(word)


def _fields(word: str) -> Iterator[tuple[str, str]]:
    """Yield the texts of a word that is JSON, with the names of their fields; a list has the name of its field."""
    stack = [("", each) for each in _json_in(word)]
    while stack:
        name, each = stack.pop()
        if isinstance(each, str):
            yield name, each
        elif isinstance(each, dict):
            stack += cast("dict[str, object]", each).items()
        elif isinstance(each, list):
            stack += ((name, item) for item in cast("list[object]", each))
