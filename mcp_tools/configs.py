"""What the clients that people have are to be told about this server, each in its own format. Pure.

A token is never written down: the configurations name the variable that holds it, in each client's spelling.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from mcp_tools.access import VARIABLE

NAME: Final = "rewindow"
_SECONDS: Final = 660
"""For one call, where a client's own limit is less than the 600 seconds that `run` may take."""


class Launch(Struct, frozen=True, kw_only=True):
    """How a client gets to the server: by starting the command, or at `url` where that is not None."""

    command: str
    arguments: Sequence[str] = ()
    url: str | None = None
    has_token: bool = False


class Format(Struct, frozen=True):
    """The configuration of one client: the file that holds it, and its text."""

    place: str
    text: Callable[[Launch], str]


def _authorization(launch: Launch, variable: str) -> Mapping[str, Any]:
    return {"headers": {"Authorization": f"Bearer {variable}"}} if launch.has_token else {}


def _entry(launch: Launch, kind: str | None, url_name: str, url_kind: str | None, variable: str) -> Mapping[str, Any]:
    """One server in JSON: its `type` where the client wants one, and what reaches it."""
    if launch.url is None:
        return {**({"type": kind} if kind else {}), "command": launch.command, "args": [*launch.arguments]}
    reached = {**({"type": url_kind} if url_kind else {}), url_name: launch.url}
    return {**reached, **_authorization(launch, variable)}


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _claude(launch: Launch) -> str:
    # Otherwise its models see the names of the tools alone, and in a first turn that does not wait for the server none.
    entry = {**_entry(launch, "stdio", "url", "http", f"${{{VARIABLE}}}"), "alwaysLoad": True}
    return _json({"mcpServers": {NAME: entry}})


def _cursor(launch: Launch) -> str:
    return _json({"mcpServers": {NAME: _entry(launch, None, "url", None, f"${{env:{VARIABLE}}}")}})


def _vscode(launch: Launch) -> str:
    asked: dict[str, Any] = {}
    if launch.url is not None and launch.has_token:
        asked["inputs"] = [{"type": "promptString", "id": NAME, "description": VARIABLE, "password": True}]
    return _json({**asked, "servers": {NAME: _entry(launch, "stdio", "url", "http", f"${{input:{NAME}}}")}})


def _gemini(launch: Launch) -> str:
    return _json({"mcpServers": {NAME: _entry(launch, None, "httpUrl", None, f"${VARIABLE}")}})


def _inspector(launch: Launch) -> str:
    # It expands no variables: its `--header` adds the token.
    entry = _entry(launch, "stdio", "url", "streamable-http", "")
    return _json({"mcpServers": {NAME: {name: value for name, value in entry.items() if name != "headers"}}})


def _codex(launch: Launch) -> str:
    # A first turn that does not wait for a server has none of its tools.
    lines = [f"[mcp_servers.{NAME}]", "required = true", f"tool_timeout_sec = {_SECONDS}"]
    if launch.url is None:
        lines += [f"command = {_quoted(launch.command)}", f"args = [{', '.join(map(_quoted, launch.arguments))}]"]
    else:
        lines.append(f"url = {_quoted(launch.url)}")
        if launch.has_token:
            lines.append(f"bearer_token_env_var = {_quoted(VARIABLE)}")
    return "\n".join(lines) + "\n"


def _goose(launch: Launch) -> str:
    lines = ["extensions:", f"  {NAME}:", f"    name: {NAME}", "    enabled: true", f"    timeout: {_SECONDS}"]
    if launch.url is None:
        lines += ["    type: stdio", f"    cmd: {_quoted(launch.command)}"]
        lines.append(f"    args: [{', '.join(map(_quoted, launch.arguments))}]")
    else:
        lines += ["    type: streamable_http", f"    uri: {_quoted(launch.url)}"]
        if launch.has_token:
            lines += [f"    env_keys: [{VARIABLE}]", "    headers:", f'      Authorization: "Bearer ${{{VARIABLE}}}"']
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A string as TOML and YAML have it in double quotes, which is as JSON has it."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


FORMATS: Final[Mapping[str, Format]] = {
    "claude": Format(".mcp.json of the project, or a file for `claude --mcp-config`", _claude),
    "codex": Format("~/.codex/config.toml", _codex),
    "goose": Format("~/.config/goose/config.yaml", _goose),
    "cursor": Format(".cursor/mcp.json of the project, or ~/.cursor/mcp.json", _cursor),
    "vscode": Format(".vscode/mcp.json of the project", _vscode),
    "gemini": Format("~/.gemini/settings.json", _gemini),
    "inspector": Format("a file for `mcp-inspector --config`", _inspector),
}
"""The clients, by the name that `--print-config` takes."""
