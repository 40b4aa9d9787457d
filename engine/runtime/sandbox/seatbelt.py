"""The Seatbelt layer of macOS: a profile for `sandbox-exec`, made of the same `Domain` as the layers of Linux.

A profile is a list of rules; the last one that matches decides. It only applies to a program that `sandbox-exec`
starts, with everything that the program starts. So a process does not enter this layer, as on Linux, but is started in
it: `command` returns what comes before the program. A process in it cannot start `sandbox-exec` again.

Paths never become part of the profile's text. They are parameters (`-D NAME=PATH`), so no character in a path can
change a rule. The kernel compares real paths, so `/tmp/a` is `/private/tmp/a` here.

Nobody has run this on a Mac yet. So the rules come from public profiles that are in use, and each names its source.
Rules of ours that no such profile has are marked with "own". The sources:

- Chromium: chromium/chromium, sandbox/policy/mac/common.sb
- Codex: openai/codex, codex-rs/sandboxing/src/seatbelt_base_policy.sbpl, seatbelt_network_policy.sbpl, seatbelt.rs
- srt: anthropic-experimental/sandbox-runtime, src/sandbox/macos-sandbox-utils.ts
- Nix: NixOS/nix, src/libstore/unix/build/sandbox-defaults.sb
- Bazel: bazelbuild/bazel, DarwinSandboxedSpawnRunner.java
- Guide: Apple Sandbox Guide v1.0, https://reverse.put.as/2011/09/14/apple-sandbox-guide-v1-0/

Called by `entering`. Standard library alone, because the zygote loads it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import PurePath
from typing import Final, NamedTuple

from ...core.domain import PARTS, Domain, Layer, is_inside
from ..system import kernel

PROGRAM: Final = "/usr/bin/sandbox-exec"
"""Never looked up in PATH, as in Codex, because statements may write there."""
LAYERS: Final[tuple[Layer, ...]] = ("seatbelt", *PARTS)
"""What a process in the profile has."""
TRIAL: Final = ("-p", "(version 1)(allow default)", "/usr/bin/true")
"""Arguments of `PROGRAM` that do nothing, to see whether it works, as in Bazel."""
NO_PROGRAM: Final = "this system has no {program}"
REFUSED: Final = "{program} does not work here, for example because Rewindow itself runs in such a sandbox"
_LINK_LEVEL: Final = 2
"""The parts of a path such as `/tmp`, a link that only root can change."""

BASE: Final = r"""(version 1)
; Codex, Chromium: closed by default
(deny default)

; Codex: child processes inherit the profile. Programs with setuid do not start (forbidden-exec-sugid).
(allow process-exec)
(allow process-fork)
; Codex, srt: to each other alone
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
; own (Apple's profiles have it): Rewindow looks for the processes that a statement started
(allow process-info-listpids)

; Codex, with the names that Chromium allows too; not kern.procargs2, which has environments
(allow sysctl-read
  (sysctl-name "hw.activecpu")
  (sysctl-name "hw.busfrequency_compat")
  (sysctl-name "hw.byteorder")
  (sysctl-name "hw.cacheconfig")
  (sysctl-name "hw.cachelinesize_compat")
  (sysctl-name "hw.cpufamily")
  (sysctl-name "hw.cpufrequency")
  (sysctl-name "hw.cpufrequency_compat")
  (sysctl-name "hw.cputype")
  (sysctl-name "hw.l1dcachesize_compat")
  (sysctl-name "hw.l1icachesize_compat")
  (sysctl-name "hw.l2cachesize_compat")
  (sysctl-name "hw.l3cachesize_compat")
  (sysctl-name "hw.logicalcpu")
  (sysctl-name "hw.logicalcpu_max")
  (sysctl-name "hw.machine")
  (sysctl-name "hw.memsize")
  (sysctl-name "hw.model")
  (sysctl-name "hw.ncpu")
  (sysctl-name "hw.nperflevels")
  (sysctl-name "hw.packages")
  (sysctl-name "hw.pagesize")
  (sysctl-name "hw.pagesize_compat")
  (sysctl-name "hw.physicalcpu")
  (sysctl-name "hw.physicalcpu_max")
  (sysctl-name "hw.tbfrequency_compat")
  (sysctl-name "hw.vectorunit")
  (sysctl-name "kern.argmax")
  (sysctl-name "kern.hostname")
  (sysctl-name "kern.maxfilesperproc")
  (sysctl-name "kern.maxproc")
  (sysctl-name "kern.osproductversion")
  (sysctl-name "kern.osrelease")
  (sysctl-name "kern.ostype")
  (sysctl-name "kern.osvariant_status")
  (sysctl-name "kern.osversion")
  (sysctl-name "kern.secure_kernel")
  (sysctl-name "kern.usrstack64")
  (sysctl-name "kern.version")
  (sysctl-name "machdep.cpu.brand_string")
  (sysctl-name "sysctl.proc_cputype")
  (sysctl-name "vm.loadavg")
  (sysctl-name-prefix "hw.optional.arm.")
  (sysctl-name-prefix "hw.optional.armv8_")
  (sysctl-name-prefix "hw.perflevel")
  (sysctl-name-prefix "kern.proc.pgrp.")
  (sysctl-name-prefix "kern.proc.pid.")
  (sysctl-name-prefix "net.routetable."))

; Codex, Chromium, Nix: names of users
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))
; Codex, srt: locks of Python's multiprocessing
(allow ipc-posix-sem)
; own, as Codex allows names of OpenMP: shared memory by the names that Python makes
(allow ipc-posix-shm* (ipc-posix-name-prefix "/psm_"))
; Codex
(allow ipc-posix-shm-read-data ipc-posix-shm-write-create ipc-posix-shm-write-unlink
  (ipc-posix-name-regex #"^/__KMP_REGISTERED_LIB_[0-9]+$"))

; srt, Codex: reading is free; the mapping of libraries as in Chromium
(allow file-read* file-map-executable)
; Codex, Nix
(allow file-write-data
  (require-all (literal "/dev/null") (vnode-type CHARACTER-DEVICE)))
(allow file-write-data
  (require-all
    (require-any (literal "/dev/zero") (literal "/dev/random") (literal "/dev/urandom") (literal "/dev/tty"))
    (vnode-type CHARACTER-DEVICE)))
; Chromium
(allow file-ioctl file-write-data
  (require-all (literal "/dev/dtracehelper") (vnode-type CHARACTER-DEVICE)))
; Codex: new terminals, but not those of other programs
(allow pseudo-tty)
(allow file-write* file-ioctl (literal "/dev/ptmx"))
(allow file-write* file-ioctl
  (require-all (regex #"^/dev/ttys[0-9]+") (extension "com.apple.sandbox.pty")))
"""
NETWORK: Final = """
; srt, Codex: the network, without sockets in the file tree
(allow system-socket)
(allow network-outbound (remote ip "*:*"))
(allow network-bind network-inbound (local ip "*:*"))
; Nix: names of hosts
(allow network-outbound (remote unix-socket (path-literal "/private/var/run/mDNSResponder")))
; Codex, but not SecurityServer, which also answers for the keychain
(allow mach-lookup
  (global-name "com.apple.networkd")
  (global-name "com.apple.ocspd")
  (global-name "com.apple.trustd.agent")
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.SystemConfiguration.configd"))
"""
OWN_SOCKETS: Final = """
; Codex, srt: the statement's own sockets in the file tree
(allow system-socket (socket-domain AF_UNIX))"""
_SOCKETS: Final = """(allow network-bind network-inbound (local unix-socket (subpath (param "{name}"))))
(allow network-outbound (remote unix-socket (subpath (param "{name}"))))"""
PLACES: Final = (
    "\n; srt, Codex, Bazel: what may be changed, and what is hidden; the more specific path comes later and decides"
)
_WRITABLE: Final = '(allow file-read* file-write* (subpath (param "{name}")))'
_HIDDEN: Final = '(deny file-read* file-write* (subpath (param "{name}")))'
DIRECTORIES: Final = (
    "; srt: realpath() passes through hidden directories\n(allow file-read-metadata (vnode-type DIRECTORY))"
)
HELD: Final = "\n; srt: read-only paths, and no directory above them is moved away"
_READ_ONLY: Final = '(deny file-write* (subpath (param "{name}")))'
_KEPT: Final = '(deny file-write-unlink (literal (param "{name}")))'
LAST: Final = "\n; Nix\n(deny file-write-setugid)\n"


class Profile(NamedTuple):
    """A profile in Seatbelt's language, and its parameters: real paths by their names in the text."""

    text: str
    parameters: Mapping[str, str]


@cache
def missing() -> str:
    """Why this layer is unavailable, as a phrase; empty if it is available.

    Starts a program, which takes milliseconds, and caches the result: the parent of workers calls it first.
    """
    if not kernel.HAS_SEATBELT or not os.access(PROGRAM, os.X_OK):
        return NO_PROGRAM.format(program=PROGRAM)
    try:
        pid = os.posix_spawn(PROGRAM, (PROGRAM, *TRIAL), {}, file_actions=_QUIET)
        _, status = os.waitpid(pid, 0)
    except OSError:
        status = -1
    return REFUSED.format(program=PROGRAM) if status else ""


_QUIET: Final = tuple((os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in range(3))


def command(domain: Domain) -> Sequence[str]:
    """What starts a program in the domain: append the program's path and arguments."""
    text, parameters = profile_of(domain)
    return (PROGRAM, "-p", text, *(f"-D{name}={path}" for name, path in parameters.items()), "--")


def profile_of(domain: Domain) -> Profile:
    """The profile of a domain.

    Leaves out writable and hidden paths that contain links, because a link may be newer than the decision. A read-only
    path may be a link, or missing: it cannot be replaced or made.
    """
    names = _Names()
    writable = list(dict.fromkeys(_real(each) for each in (domain.scratch, *domain.writable) if each))
    writable = [each for each in writable if os.path.realpath(each) == each]
    hidden = [each for each in map(_real, domain.hidden) if os.path.realpath(each) == each and each not in writable]
    lines = [BASE + NETWORK * domain.network]
    if writable:
        lines += [OWN_SOCKETS, *(_SOCKETS.format(name=names.of(each, "WRITABLE")) for each in writable)]
    lines.append(PLACES)
    for each in sorted({*writable, *hidden}, key=_depth):
        is_hidden = each in hidden
        rule = _HIDDEN if is_hidden else _WRITABLE
        lines.append(rule.format(name=names.of(each, "HIDDEN" if is_hidden else "WRITABLE")))
    lines.append(DIRECTORIES)
    held = [each for each in map(_real, domain.read_only) if each not in writable and is_inside(each, tuple(writable))]
    held = [each for each in held if os.path.realpath(os.path.dirname(each)) == os.path.dirname(each)]
    lines += [HELD, *(_READ_ONLY.format(name=names.of(each, "READ_ONLY")) for each in held)]
    kept = _above([*held, *(each for each in hidden if is_inside(each, tuple(writable)))], writable)
    lines += [_KEPT.format(name=names.of(each, "KEPT")) for each in (*writable, *kept)]
    return Profile("\n".join([*lines, LAST]), names.parameters)


class _Names:
    """Names of paths in a profile."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def of(self, path: str, kind: str) -> str:
        """The name of a path: its first kind, and a number."""
        return self._names.setdefault(path, f"{kind}_{len(self._names)}")

    @property
    def parameters(self) -> Mapping[str, str]:
        return {name: path for path, name in self._names.items()}


def _real(path: str) -> str:
    """The path with a link at the top of the file tree resolved: `/tmp` is `/private/tmp`, and only root changes it."""
    parts = PurePath(path).parts
    top = os.path.join(*parts[:_LINK_LEVEL])
    return os.path.join(os.path.realpath(top), *parts[_LINK_LEVEL:])


def _above(paths: Iterable[str], roots: Sequence[str]) -> Sequence[str]:
    """The directories between a root and one of the paths, without repetitions."""
    above = (str(each) for path in paths for each in PurePath(path).parents)
    return [each for each in dict.fromkeys(above) if each not in roots and is_inside(each, tuple(roots))]


def _depth(path: str) -> tuple[int, str]:
    return len(PurePath(path).parts), path
