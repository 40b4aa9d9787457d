"""Configurations that make common MCP clients start or reach this server, one format for each client.

Pure. Configurations never contain the token: they name the variable that holds it, in each client's syntax. Used by
`cli` for `--print-config`, and by the generator of `docs/mcp-clients.md`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from mcp_tools.access import VARIABLE

NAME: Final = "rewindow"
_SECONDS: Final = 660
"""Time limit for one call, in clients whose default is below the 600 seconds that `run` may take."""


class Launch(Struct, frozen=True, kw_only=True):
    """How a client reaches the server: it connects to `url`, or starts `command` if `url` is None."""

    command: str
    arguments: Sequence[str] = ()
    url: str | None = None
    has_token: bool = False


class Format(Struct, frozen=True):
    """The configuration of one client: the file to put it in, and its text."""

    place: str
    text: Callable[[Launch], str]


def _authorization(launch: Launch, variable: str) -> Mapping[str, Any]:
    return {"headers": {"Authorization": f"Bearer {variable}"}} if launch.has_token else {}


def _entry(launch: Launch, kind: str | None, url_name: str, url_kind: str | None, variable: str) -> Mapping[str, Any]:
    """Describe the server in JSON; `kind` and `url_kind` are its `type`, for clients that need one."""
    if launch.url is None:
        return {**({"type": kind} if kind else {}), "command": launch.command, "args": [*launch.arguments]}
    entry = {**({"type": url_kind} if url_kind else {}), url_name: launch.url}
    return {**entry, **_authorization(launch, variable)}


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _claude(launch: Launch) -> str:
    # Without `alwaysLoad` its models see only tool names, and no tools at all in a first turn that starts too early.
    entry = {**_entry(launch, "stdio", "url", "http", f"${{{VARIABLE}}}"), "alwaysLoad": True}
    return _json({"mcpServers": {NAME: entry}})


def _cursor(launch: Launch) -> str:
    return _json({"mcpServers": {NAME: _entry(launch, None, "url", None, f"${{env:{VARIABLE}}}")}})


def _vscode(launch: Launch) -> str:
    inputs: dict[str, Any] = {}
    if launch.url is not None and launch.has_token:
        inputs["inputs"] = [{"type": "promptString", "id": NAME, "description": VARIABLE, "password": True}]
    return _json({**inputs, "servers": {NAME: _entry(launch, "stdio", "url", "http", f"${{input:{NAME}}}")}})


def _gemini(launch: Launch) -> str:
    return _json({"mcpServers": {NAME: _entry(launch, None, "httpUrl", None, f"${VARIABLE}")}})


def _inspector(launch: Launch) -> str:
    # It does not expand variables; its option `--header` adds the token.
    entry = _entry(launch, "stdio", "url", "streamable-http", "")
    return _json({"mcpServers": {NAME: {name: value for name, value in entry.items() if name != "headers"}}})


def _codex(launch: Launch) -> str:
    # Without `required` a first turn may start before the server is ready, without its tools.
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
    """Quote a string for TOML and YAML, whose double quotes work as in JSON."""
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
"""The clients, by their name for `--print-config`."""
