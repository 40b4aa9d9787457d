"""Reads profiles in Seatbelt's language: refuses what the published grammar does not have, and decides by the rules.

The grammar is that of the Apple Sandbox Guide v1.0 (https://reverse.put.as/2011/09/14/apple-sandbox-guide-v1-0/):
actions, operations, filters and modifiers. Names that came later are those of public profiles: Chromium's
sandbox/policy/mac, Codex's seatbelt_base_policy.sbpl, sandbox-runtime, and Apple's own profiles as listed in
https://dnesting.com/2026/macos-sandbox-sbpl-reference/. Strings are those of TinyScheme, in which the compiler of
profiles is written. An unknown name makes that compiler reject the whole profile.

It also makes a stand-in of `sandbox-exec`, which records how it was started, confines nothing, and runs the program.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ACTIONS: Final = frozenset(("allow", "deny"))
OPERATIONS: Final = frozenset(
    """
    default file* file-chroot file-ioctl file-issue-extension file-link file-map-executable file-mknod
    file-read* file-read-data file-read-metadata file-read-xattr file-revoke file-search
    file-write* file-write-create file-write-data file-write-flags file-write-mode file-write-mount file-write-owner
    file-write-setugid file-write-times file-write-unlink file-write-unmount file-write-xattr
    ipc* ipc-posix* ipc-posix-issue-extension ipc-posix-sem ipc-posix-shm* ipc-posix-shm ipc-posix-shm-read*
    ipc-posix-shm-read-data ipc-posix-shm-read-metadata ipc-posix-shm-write* ipc-posix-shm-write-create
    ipc-posix-shm-write-data ipc-posix-shm-write-unlink ipc-sysv* ipc-sysv-msg ipc-sysv-sem ipc-sysv-shm
    iokit-get-properties iokit-open iokit-set-properties job-creation lsopen
    mach* mach-bootstrap mach-lookup mach-per-user-lookup mach-priv* mach-priv-host-port mach-priv-task-port
    mach-register mach-task-name
    network* network-bind network-inbound network-outbound nvram*
    process* process-exec process-exec* process-exec-interpreter process-fork
    process-info* process-info-listpids process-info-pidinfo process-info-setcontrol pseudo-tty
    signal sysctl* sysctl-read sysctl-write system* system-socket user-preference-read user-preference-write
    """.split()  # noqa: SIM905 -- a table of a hundred words
)
PATHS: Final = frozenset(("literal", "path", "path-literal", "prefix", "regex", "subpath"))
_STRING: Final = "string"
_SYMBOL: Final = "symbol"
_FILTERS: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys(PATHS, (_STRING, "file*|network*|process-exec")),
    "extension": (_STRING, "file*"),
    "global-name": (_STRING, "mach-lookup"),
    "ipc-posix-name": (_STRING, "ipc-posix*"),
    "ipc-posix-name-prefix": (_STRING, "ipc-posix*"),
    "ipc-posix-name-regex": (_STRING, "ipc-posix*"),
    "socket-domain": (_SYMBOL, "system-socket"),
    "sysctl-name": (_STRING, "sysctl*"),
    "sysctl-name-prefix": (_STRING, "sysctl*"),
    "target": (_SYMBOL, "signal|process-info*"),
    "vnode-type": (_SYMBOL, "file*"),
}
"""Filters of one argument: its kind, and the operations that have them."""
_JOINED: Final = frozenset(("require-all", "require-any", "require-not"))
_ENDS: Final = frozenset(("local", "remote"))
_SOCKETS: Final = frozenset(("ip", "tcp", "udp"))
_SYMBOLS: Final = {
    "socket-domain": ("AF_UNIX", "AF_INET", "AF_INET6", "AF_SYSTEM"),
    "target": ("self", "others", "same-sandbox", "children", "pgrp"),
    "vnode-type": ("REGULAR-FILE", "DIRECTORY", "SYMLINK", "CHARACTER-DEVICE", "BLOCK-DEVICE", "FIFO", "SOCKET", "TTY"),
}
_HOSTS: Final = re.compile(r"(\*|localhost):(\*|[0-9]{1,5})")
"""A host in a profile is `*` or `localhost`: the compiler rejects addresses."""
_ESCAPES: Final = re.compile(r'\\(?:["\\ntr]|x[0-9a-fA-F]{2})')
_TOKEN: Final = re.compile(r';[^\n]*|\s+|[()]|#?"(?:\\.|[^"\\])*"|[^\s();"#]+', re.DOTALL)


class ProfileError(ValueError):
    """Raised for a text that is not a profile."""


class Text(NamedTuple):
    """A string in a profile; one that begins with `#` is a regular expression."""

    value: str
    is_raw: bool = False


Form = str | Text | list["Form"]


class Rule(NamedTuple):
    """One action, the operations that it applies to, and the filters of which one must match."""

    action: str
    operations: Sequence[str]
    filters: Sequence[list[Form]]


def read(text: str, parameters: Mapping[str, str]) -> Sequence[Rule]:
    """The rules of a profile, with its parameters in their places. Raises ProfileError."""
    forms = _forms(text)
    if not forms or forms[0] != ["version", "1"]:
        raise ProfileError("a profile begins with its version")
    rules = [_rule(form, parameters) for form in forms[1:]]
    if not rules or rules[0].operations != ["default"] or any("default" in each.operations for each in rules[1:]):
        raise ProfileError("the first rule, and no other, is the default")
    used = {form.value for form in _named(forms)}
    if unused := sorted(set(parameters) - used):
        raise ProfileError(f"parameters without a use: {unused}")
    return rules


def _named(form: Form) -> Iterator[Text]:
    """The names of the parameters that a form uses."""
    if isinstance(form, list):
        if form[:1] == ["param"]:
            yield from (each for each in form[1:] if isinstance(each, Text))
        for each in form:
            yield from _named(each)


# --- reading ----------------------------------------------------------------------------------------------------------


def _forms(text: str) -> list[Form]:
    open_forms: list[list[Form]] = [[]]
    for token in _tokens(text):
        if token == "(":
            open_forms.append([])
        elif token == ")":
            if len(open_forms) == 1:
                raise ProfileError("a form is closed that was not opened")
            closed = open_forms.pop()
            open_forms[-1].append(closed)
        elif not token.isspace() and not token.startswith(";"):
            open_forms[-1].append(_atom(token))
    if len(open_forms) != 1:
        raise ProfileError("a form is not closed")
    return open_forms[0]


def _tokens(text: str) -> Iterator[str]:
    position = 0
    while position < len(text):
        if not (found := _TOKEN.match(text, position)):
            raise ProfileError("a string is not closed")
        yield found[0]
        position = found.end()


def _atom(token: str) -> Form:
    if token.startswith('#"'):
        return Text(token[2:-1], is_raw=True)
    if not token.startswith('"'):
        return token
    body = token[1:-1]
    if "\\" in _ESCAPES.sub("", body) or not body.isprintable():
        raise ProfileError(f"a string with characters that must be escaped in another way: {token!r}")
    return Text(_ESCAPES.sub(lambda found: found[0].encode().decode("unicode_escape"), body))


def _rule(form: Form, parameters: Mapping[str, str]) -> Rule:
    if not isinstance(form, list) or not form or form[0] not in ACTIONS:
        raise ProfileError(f"not an action: {form}")
    operations = [each for each in form[1:] if isinstance(each, str)]
    if not operations or form[1 : 1 + len(operations)] != operations:
        raise ProfileError(f"operations come first: {form}")
    if unknown := [each for each in operations if each not in OPERATIONS]:
        raise ProfileError(f"unknown operations: {unknown}")
    filters = [_filter(each, operations, parameters) for each in form[1 + len(operations) :]]
    return Rule(str(form[0]), operations, filters)


def _filter(form: Form, operations: Sequence[str], parameters: Mapping[str, str]) -> list[Form]:
    if not isinstance(form, list) or not form or not isinstance(form[0], str):
        raise ProfileError(f"not a filter: {form}")
    name, rest = form[0], form[1:]
    if name in _JOINED:
        if not rest or (name == "require-not" and len(rest) != 1):
            raise ProfileError(f"a wrong number of filters: {form}")
        return [name, *(_filter(each, operations, parameters) for each in rest)]
    if name in _ENDS:
        return [name, *_end(rest, operations, parameters)]
    if name not in _FILTERS or len(rest) != 1:
        raise ProfileError(f"unknown filter, or a wrong number of arguments: {form}")
    _, families = _FILTERS[name]
    if wrong := [each for each in operations if not any(_covers(family, each) for family in families.split("|"))]:
        raise ProfileError(f"{name} is no filter of {wrong}")
    return [name, _argument(name, rest[0], parameters)]


def _argument(name: str, form: Form, parameters: Mapping[str, str]) -> Form:
    kind, value = _FILTERS[name][0], _value(form, parameters)
    if isinstance(value, Text) != (kind == _STRING) or value not in _SYMBOLS.get(name, (value,)):
        raise ProfileError(f"{name} does not take {value}")
    if isinstance(value, Text):
        if value.is_raw != name.endswith("regex"):
            raise ProfileError(f"{name} takes the other kind of string: {value}")
        if name in PATHS - {"regex"} and not value.value.startswith("/"):
            raise ProfileError(f"not an absolute path: {value}")
    return value


def _end(rest: list[Form], operations: Sequence[str], parameters: Mapping[str, str]) -> list[Form]:
    """The arguments of `local` and `remote`: a protocol and a host, or a path of a Unix socket."""
    if any(not _covers("network*", each) for each in operations) or not rest:
        raise ProfileError(f"ends of connections are filters of the network alone: {rest}")
    if rest[0] in _SOCKETS and len(rest) == 2 and isinstance(rest[1], Text) and _HOSTS.fullmatch(rest[1].value):
        return rest
    if rest[0] == "unix-socket" and len(rest) == 2:
        return ["unix-socket", _filter(rest[1], operations, parameters)]
    raise ProfileError(f"not an end of a connection: {rest}")


def _value(form: Form, parameters: Mapping[str, str]) -> Form:
    if not isinstance(form, list):
        return form
    if len(form) != 2 or form[0] != "param" or not isinstance(form[1], Text) or form[1].value not in parameters:
        raise ProfileError(f"not a parameter of this profile: {form}")
    return Text(parameters[form[1].value])


def _covers(family: str, operation: str) -> bool:
    return operation.startswith(family[:-1]) if family.endswith("*") else operation == family


# --- deciding ---------------------------------------------------------------------------------------------------------


def allows(rules: Sequence[Rule], operation: str, **facts: str) -> bool:
    """Whether the rules allow the operation: the last rule decides that names it and has no filter or one that matches.

    `facts` are values for filters: `path`, and others by their names with `_` for `-`. A Unix socket's path is
    `local` or `remote`; `ip` stands for any address.
    """
    decided = False
    for rule in rules:
        names = any(each == "default" or _covers(each, operation) for each in rule.operations)
        if names and (not rule.filters or any(_matches(each, facts) for each in rule.filters)):
            decided = rule.action == "allow"
    return decided


def _matches(form: list[Form], facts: Mapping[str, str]) -> bool:
    name, rest = form[0], form[1:]
    if name in _JOINED:
        found = [_matches(each, facts) for each in rest if isinstance(each, list)]
        return not found[0] if name == "require-not" else all(found) if name == "require-all" else any(found)
    if name in _ENDS:
        found_end = facts.get(str(name), "")
        if isinstance(rest[1], list):
            return found_end.startswith("/") and _matches(rest[1], {"path": found_end})
        return found_end == "ip"
    value = rest[0].value if isinstance(rest[0], Text) else str(rest[0])
    fact = facts.get(
        "path" if name in PATHS else str(name).removesuffix("-prefix").removesuffix("-regex").replace("-", "_")
    )
    if fact is None:
        return False
    if str(name).endswith("regex"):
        return re.search(value, fact) is not None
    if name == "subpath":
        return fact == value or fact.startswith(value.rstrip("/") + "/")
    return fact.startswith(value) if str(name).endswith("prefix") else fact == value


# --- a stand-in of the program ----------------------------------------------------------------------------------------

_PROGRAM: Final = """#!/bin/sh
# Records arguments and environment, each with a NUL at its end, and runs the program.
here=$(dirname "$0")
{ printf '%s\\0' "$@"; } > "$here/arguments.$$"
env -0 > "$here/environment.$$"
while [ "$1" != "--" ] && [ "$1" != "/usr/bin/true" ]; do shift; done
[ "$1" = "--" ] && shift
exec "$@"
"""


class Started(NamedTuple):
    """One start of the program: profile, parameters, the command in it, and the environment."""

    text: str
    parameters: Mapping[str, str]
    command: Sequence[str]
    environment: Mapping[str, str]


def make_program(directory: Path, text: str = _PROGRAM) -> Path:
    """Make the stand-in in this directory, where it also leaves its records."""
    made = directory / "sandbox-exec"
    made.write_text(text)
    made.chmod(made.stat().st_mode | stat.S_IXUSR)
    return made


def started(directory: Path) -> Sequence[Started]:
    """How the program was started in domains, in no order."""
    found: list[Started] = []
    for record in sorted(directory.glob("arguments.*")):
        arguments = [os.fsdecode(each) for each in record.read_bytes().split(b"\0")[:-1]]
        if "--" not in arguments:
            continue  # the trial
        border = arguments.index("--")
        assert arguments[0] == "-p"
        definitions = [each.removeprefix("-D").partition("=") for each in arguments[2:border]]
        variables = (record.parent / record.name.replace("arguments", "environment")).read_bytes().split(b"\0")[:-1]
        environment = dict(os.fsdecode(each).split("=", 1) for each in variables)
        parameters = {name: path for name, _, path in definitions}
        found.append(Started(arguments[1], parameters, arguments[border + 1 :], environment))
    return found
