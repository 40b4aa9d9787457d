"""The names of MCP servers and of their modules, and that what a server is given is in no representation."""

from __future__ import annotations

import pytest

from engine import HttpServer, StdioServer
from engine.core.mcp_servers import call_of, called, explained, help_of, module_of, modules_for, told_apart
from engine.core.toolbox import INJECTED
from engine.log.redaction import Redactor


@pytest.mark.parametrize(
    ("server", "module"),
    [
        ("github", "github"),
        ("GitHub MCP", "github_mcp"),
        ("git-hub", "git_hub"),
        ("import", "mcp_import"),
        ("list", "mcp_list"),
        ("grep", "mcp_grep"),
        ("time", "mcp_time"),
        ("7zip", "mcp_7zip"),
        ("☃", "mcp_server"),
        ("ﬁles", "files"),
        ("a.b/c", "a_b_c"),
        ("_", "mcp_server"),
    ],
)
def test_module_is_named_after_its_server(server: str, module: str) -> None:
    assert modules_for([server], {}, ()) == {server: module}


def test_module_keeps_its_name_and_takes_no_used_one() -> None:
    known = {"git": "git", "gone": "github"}
    assert modules_for(["Git", "git", "github"], known, {"x", "github_2"}) == {
        **known,
        "Git": "git_2",
        "github": "github_3",
    }


def test_no_module_is_a_name_that_every_namespace_has() -> None:
    assert not INJECTED.intersection(modules_for(INJECTED, {}, ()).values())


def test_a_very_long_name_is_cut() -> None:
    ((name, module),) = modules_for(told_apart([StdioServer(name="x" * 5_000, command="c")], str), {}, ()).items()
    assert (len(name), module) == (64, "x" * 64)


def test_a_secret_is_removed_from_a_name_before_it_is_cut() -> None:
    secret = "sk-Zq9vT4mW7xK2pL8nR3yB6hQ5"
    (name,) = told_apart([StdioServer(name=f"{'q' * 45}{secret}", command="c")], Redactor([secret]).redact)
    assert name == f"{'q' * 45}***"


def test_servers_of_one_name_are_told_apart_in_their_order() -> None:
    servers = [StdioServer(name=name, command=str(number)) for number, name in enumerate(("a", "a", " a ", "", "\n"))]
    assert {name: getattr(server, "command", "") for name, server in told_apart(servers, str).items()} == {
        "a": "0",
        "a (2)": "1",
        "a (3)": "2",
        "server": "3",
        "\\n": "4",
    }


def test_no_representation_shows_what_a_server_is_given() -> None:
    given = StdioServer(name="a", command="/c/hidden", args=("hidden",), env={"K": "hidden"})
    behind = HttpServer(name="b", url="https://hidden", headers={"Authorization": "hidden"})
    assert "hidden" not in f"{given!r} {given} {behind!r} {behind} {[given, behind]!r}"


@pytest.mark.parametrize("tool", ["search", "get-issue", "a.b", "x\ny", "help"])
def test_an_operation_says_which_tool_of_which_module_is_called(tool: str) -> None:
    assert called(call_of("github", tool)) == ("github", tool)
    assert module_of(call_of("github", tool)) == "github"
    assert explained(call_of("github", tool)) is None


@pytest.mark.parametrize("operation", ["read", "bash", "", "a.", ".a", "1.a", "help()", "help(a.b)"])
def test_other_operations_are_about_no_module(operation: str) -> None:
    assert module_of(operation) is None


def test_an_operation_may_ask_what_a_module_offers() -> None:
    assert explained(help_of("github")) == module_of(help_of("github")) == "github"
    assert called(help_of("github")) is None
