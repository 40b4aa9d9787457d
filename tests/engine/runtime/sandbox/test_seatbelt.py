"""Profiles for macOS, which no Mac has read: checked against the published grammar, and compared with golden files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.domain import PARTS, Domain, is_bare, is_held, lacking
from engine.log.events.session import Mode
from engine.runtime.sandbox import seatbelt
from engine.runtime.sandbox.seatbelt import profile_of
from engine.runtime.system import kernel
from engine.session.confinement import domain_of
from tests.support.seatbelt import ProfileError, Rule, allows, read

GOLDEN = Path(__file__).parents[3] / "data" / "seatbelt"
SCRATCH = "/state/scratch/s"
DOMAINS = {
    "scratch": Domain(scratch=SCRATCH),
    "network": Domain(scratch=SCRATCH, network=True),
    "parser": Domain(scratch="", without=("mounts",)),
    "workspace": Domain(
        scratch=SCRATCH,
        writable=("/work",),
        read_only=("/work/.git/config", "/work/a/b/.vscode", "/elsewhere/.vscode"),
        hidden=("/state", "/Users/u/.config/rewindow"),
    ),
    "home": Domain(
        scratch="/Users/u/.local/state/rewindow/scratch/s",
        writable=("/Users/u",),
        hidden=("/Users/u/.local/state/rewindow",),
    ),
    "hostile": Domain(
        scratch=SCRATCH, writable=('/work/")(allow default)(deny file-write* (literal "', "/work/a\nb", "/w/\udcff\\")
    ),
}


def rules_of(domain: Domain) -> list[Rule]:
    return list(read(*profile_of(domain)))


@pytest.mark.parametrize("name", DOMAINS)
def test_profile_is_as_in_its_golden_file(name: str) -> None:
    text, parameters = profile_of(DOMAINS[name])
    read(text, parameters)
    lines = "".join(f"; -D {key}={path!r}\n" for key, path in parameters.items())
    golden = GOLDEN / f"{name}.sb"
    if "UPDATE_GOLDEN" in os.environ:
        golden.write_text(f"{lines}{text}")
    assert f"{lines}{text}" == golden.read_text()


@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("is_open", [False, True])
def test_each_domain_of_a_session_makes_a_profile(mode: Mode, network: bool, is_open: bool) -> None:
    for roots in (("/work",), ("/work", "/other"), ("/",)):
        domain = domain_of(
            mode,
            network=network,
            roots=roots,
            scratch=SCRATCH,
            state="/state",
            protected=("/work/.git/config", "/other/.envrc"),
            own=("/work/keys",),
            is_open=is_open,
        )
        rules = rules_of(domain)
        assert allows(rules, "network-outbound", remote="ip") == network
        assert allows(rules, "file-write-create", path="/work/new") == bool(domain.writable)
        assert not allows(rules, "file-write-data", path="/work/.git/config")
        assert allows(rules, "file-write-create", path=f"{SCRATCH}/new")
        assert not allows(rules, "file-read-data", path="/state/sessions.db")


def test_what_a_session_may_change_in_its_workspace() -> None:
    rules = rules_of(DOMAINS["workspace"])
    for path in ("/work/new", "/work/a/b/c", f"{SCRATCH}/new", "/work/.git/configuration"):
        assert allows(rules, "file-write-create", path=path)
        assert allows(rules, "file-write-unlink", path=path)
    for path in ("/work/.git/config", "/work/a/b/.vscode/tasks.json", "/workspace", "/etc/hosts", "/state/s.db"):
        assert not allows(rules, "file-write-create", path=path)
        assert not allows(rules, "file-write-mode", path=path)
    # A directory above a protected file is not moved away, nor is the root.
    for path in ("/work", "/work/.git", "/work/a", "/work/a/b", SCRATCH):
        assert not allows(rules, "file-write-unlink", path=path)
        assert allows(rules, "file-write-create", path=f"{path}/new")
    assert not allows(rules, "file-write-setugid", path="/work/new")
    assert not allows(rules, "file-link", path="/work/.git/config")


def test_hidden_directories_are_read_by_nothing_but_their_scratch_directory() -> None:
    for name in ("workspace", "home"):
        domain = DOMAINS[name]
        rules, state = rules_of(domain), domain.hidden[0]
        assert not allows(rules, "file-read-data", path=f"{state}/sessions.db", vnode_type="REGULAR-FILE")
        assert not allows(rules, "file-read-metadata", path=f"{state}/sessions.db", vnode_type="REGULAR-FILE")
        assert not allows(rules, "file-write-data", path=f"{state}/sessions.db")
        assert not allows(rules, "file-read-data", path=state, vnode_type="DIRECTORY")  # listing it
        assert allows(rules, "file-read-metadata", path=f"{state}/scratch", vnode_type="DIRECTORY")
        assert allows(rules, "file-read-data", path=f"{domain.scratch}/a")
        assert allows(rules, "file-read-data", path="/anywhere/else")
        assert not allows(rules, "file-write-unlink", path=state)


def test_network_and_sockets() -> None:
    closed, opened = rules_of(DOMAINS["workspace"]), rules_of(DOMAINS["network"])
    agent = "/private/tmp/com.apple.launchd.x/Listeners"
    for rules in (closed, opened):
        assert allows(rules, "network-outbound", remote=f"{SCRATCH}/socket")
        assert allows(rules, "network-bind", local=f"{SCRATCH}/socket")
        assert not allows(rules, "network-outbound", remote=agent)
        assert not allows(rules, "network-outbound", remote="/var/run/docker.sock")
        assert not allows(rules, "mach-lookup", global_name="com.apple.SecurityServer")
        assert not allows(rules, "mach-lookup", global_name="com.apple.pasteboard.1")
    assert not allows(closed, "network-bind", local="ip")
    assert allows(opened, "network-bind", local="ip")
    assert allows(opened, "network-outbound", remote="/private/var/run/mDNSResponder")
    assert not allows(closed, "network-outbound", remote="/private/var/run/mDNSResponder")


def test_processes_devices_and_names_of_memory() -> None:
    rules = rules_of(DOMAINS["workspace"])
    assert allows(rules, "signal", target="same-sandbox")
    assert not allows(rules, "signal", target="others")
    assert not allows(rules, "process-info-pidinfo", target="others")
    assert not allows(rules, "mach-priv-task-port", target="others")
    assert not allows(rules, "sysctl-read", sysctl_name="kern.procargs2")
    assert allows(rules, "file-write-data", path="/dev/null", vnode_type="CHARACTER-DEVICE")
    assert not allows(rules, "file-write-data", path="/dev/null", vnode_type="REGULAR-FILE")
    assert not allows(rules, "file-write-data", path="/dev/disk0", vnode_type="BLOCK-DEVICE")
    assert not allows(rules, "file-write-data", path="/dev/ttys001", vnode_type="CHARACTER-DEVICE")
    assert allows(rules, "file-write-data", path="/dev/ttys001", extension="com.apple.sandbox.pty")
    assert allows(rules, "ipc-posix-shm-write-create", ipc_posix_name="/psm_1234")
    assert not allows(rules, "ipc-posix-shm-read-data", ipc_posix_name="/browser")
    assert not allows(rules, "ipc-sysv-shm")


@given(st.text(st.characters(exclude_characters="/\0"), min_size=1).filter(lambda each: each not in (".", "..")))
def test_no_path_changes_the_text(name: str) -> None:
    harmless = profile_of(Domain(scratch=SCRATCH, writable=("/work/a",), read_only=("/work/a/b",)))
    path = f"/work/{name}"
    hostile = profile_of(Domain(scratch=SCRATCH, writable=(path,), read_only=(f"{path}/b",)))
    assert hostile.text == harmless.text
    rules = read(*hostile)
    assert allows(rules, "file-write-data", path=f"{path}/a")
    assert not allows(rules, "file-write-data", path=f"{path}/b")
    assert not allows(rules, "file-write-data", path="/other")


def test_paths_are_arguments_as_the_kernel_takes_them() -> None:
    domain = DOMAINS["hostile"]
    command = seatbelt.command(domain)
    assert command[0] == "/usr/bin/sandbox-exec"
    assert command[1:3] == ("-p", profile_of(domain).text)
    assert command[-1] == "--"
    given = [each.partition("=")[2] for each in command[3:-1]]
    assert {*domain.writable, SCRATCH} <= set(given)
    assert all(each.startswith(("-DWRITABLE_", "-DREAD_ONLY_", "-DKEPT_")) for each in command[3:-1])
    assert b"/w/\xff\\" in [os.fsencode(each) for each in given]


def test_a_link_at_the_top_is_resolved_and_others_are_left_out(tmp_path: Path) -> None:
    """As `/tmp`, which is `/private/tmp` on macOS."""
    top = next(each for each in Path("/").iterdir() if each.is_symlink() and each.is_dir())
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    protected = tmp_path / "real" / "protected"
    protected.symlink_to("elsewhere")
    domain = Domain(
        scratch=str(top / "s"),
        writable=(str(tmp_path / "real"), str(tmp_path / "link")),
        read_only=(str(protected), str(tmp_path / "link" / "x")),
    )
    parameters = profile_of(domain).parameters
    assert set(parameters.values()) == {str(top.resolve() / "s"), str(tmp_path / "real"), str(protected)}


def test_the_layer_alone_is_a_whole_sandbox() -> None:
    assert is_held(seatbelt.LAYERS, DOMAINS["home"])
    assert not lacking(seatbelt.LAYERS)
    assert not is_bare(seatbelt.LAYERS)
    assert set(PARTS) < set(seatbelt.LAYERS)


WRONG = {
    "no version": "(deny default)",
    "no default": "(version 1)(allow file-read*)",
    "a later default": "(version 1)(deny default)(allow default)",
    "not closed": "(version 1)(deny default)(allow file-read*",
    "closed twice": "(version 1)(deny default))(allow file-read*)",
    "open string": '(version 1)(deny default)(allow file-read* (literal "/a))',
    "an unknown operation": "(version 1)(deny default)(allow file-eat)",
    "an unknown action": "(version 1)(deny default)(permit file-read*)",
    "an unknown filter": '(version 1)(deny default)(allow file-read* (glob "/a"))',
    "another operation's filter": '(version 1)(deny default)(allow file-read* (global-name "a"))',
    "an unknown target": "(version 1)(deny default)(allow signal (target everybody))",
    "an address": '(version 1)(deny default)(allow network-outbound (remote ip "127.0.0.1:80"))',
    "a relative path": '(version 1)(deny default)(allow file-read* (subpath "a"))',
    "a wrong escape": '(version 1)(deny default)(allow file-read* (literal "/\\q"))',
    "an unescaped line break": '(version 1)(deny default)(allow file-read* (literal "/a\nb"))',
    "an unknown parameter": '(version 1)(deny default)(allow file-read* (literal (param "A")))',
    "two filters in require-not": '(version 1)(deny default)(allow file* (require-not (literal "/a") (literal "/b")))',
    "a plain string as pattern": '(version 1)(deny default)(allow file-read* (regex "^/a"))',
}


@pytest.mark.parametrize("name", WRONG)
def test_the_checker_rejects(name: str) -> None:
    with pytest.raises(ProfileError):
        read(WRONG[name], {})


def test_the_checker_wants_a_use_of_each_parameter() -> None:
    text = '(version 1)(deny default)(allow file-read* (literal (param "A")))'
    assert read(text, {"A": "/a"})
    with pytest.raises(ProfileError):
        read(text, {"A": "/a", "B": "/b"})


@pytest.mark.skipif(kernel.HAS_SEATBELT, reason="this system has it")
def test_a_profile_is_missing_on_this_system_without_its_program() -> None:
    seatbelt.missing.cache_clear()
    assert seatbelt.missing() == seatbelt.NO_PROGRAM.format(program=seatbelt.PROGRAM)
