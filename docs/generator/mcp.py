"""The pages about `rewindow-mcp`: its tools, from their schemas, and the client configurations that it prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mcp_tools.client_configs import FORMATS, Launch
from mcp_tools.prompts import PROMPTS, PromptRow
from mcp_tools.resources import TEMPLATES
from mcp_tools.tools import PYTHON_TOOLS, TOOLS
from mcp_tools.tools.schema import ToolRow, branches_of

_TOOLS_HEAD = """\
# The tools of rewindow-mcp

*Generated from `mcp_tools/` by `make docs`. A test fails when it is out of date.*

`rewindow-mcp` offers these tools to [MCP clients](mcp-clients.md). The page about [views](views.md) explains views,
groups and ticks.

A reply is one text. Its first line describes the view or group, for example `cfg  pyproject.toml  lines 1-38 of 212
398/400 tokens  lod 0  follows  statement 7`. The content follows, within the budget `tokens`. Programs find the fields
of the first line in `_meta["rewindow/handle"]`, too. A failed call returns `isError` and one sentence that says what
would work.

Each call of `view` and `group` is a statement on the session's timeline. `rewindow show` prints it, and an editor can
load the session. Arguments are never run as code.

A name may be any text with an ASCII letter or digit. The timeline needs an identifier, so Rewindow makes one from the
name. The first line of a reply shows both: `my_group (my-group)`. Every tool and resource accepts either. If two names
would become the same identifier, the second one is refused.

With `--structured`, `structuredContent` has the fields of the first line and the whole text, and each tool has an
`outputSchema`. Use this option only for programs. Claude Code and Codex then show their models only this JSON, which
costs a fifth more tokens.

If a request of `replay` or `rewind` has a `progressToken`, it reports progress: `statement 4 (2 of 5)` when each
statement begins, and the number of restored files. A cancelled request changes nothing.

Some calls may take long: `run`, `replay`, `rewind`, and `tick` with `wait`. After half a second they return a *task*,
if the client declares the extension `io.modelcontextprotocol/tasks` of 2026-07-28 in its request.
- `tasks/get` returns the progress as `statusMessage`, then the result. A task is deleted 30 minutes after it starts or
  10 minutes after it ends, whichever is later.
- `tasks/cancel` stops the task.
- A task continues if its client disconnects. Only clients of the same session can see it.
- When the server stops, it cancels running tasks. `timeline` still has the results of statements.
- A session has at most 64 tasks. Further calls return their results directly.
"""
_CLIENTS_HEAD = """\
# rewindow-mcp in your client

*Generated from `mcp_tools/client_configs.py` by `make docs`. A test fails when it is out of date.*

`rewindow-mcp` is an MCP server with [views, groups and updates of followed files](mcp-tools.md). `rewindow-mcp
--print-config CLIENT` prints the configuration for a client. The configuration starts this installation, with the other
options that you give. Standard error says which file to put it into.

`make test-hosts` tests the configurations below in Claude Code 2.1.330, Codex 0.169.0, Gemini CLI 0.61.0 and goose
1.52.0. It does so on standard input and output, and over HTTP. It checks that the models get the tools and the
instructions in the first prompt, and that each reply arrives unchanged. `make test-all` runs the MCP Inspector 2.12.0.
The formats of Cursor and VS Code follow their documentation, and are not tested in these programs.

## Which files the server opens

- `--root DIR` (repeatable) limits the files to this directory. Without it, the server uses the client's roots, or
  otherwise the current directory. `/` and the home directory are refused unless `--root` names them.
- `--session NAME` stores the views and groups, so that they are there at the next start.

With `--allow-run`, the server also offers the tools `run`, `rewind` and `replay`. `run` runs Python in a
[sandbox](sandbox.md):
- Python can write only below the roots and in a scratch directory.
- Python can read all your files.
- Python has no network. `--network` allows TCP.
- An action that needs a question in an editor is refused.
- If the kernel has no sandbox, the server ends with an error. `--allow-run=unsandboxed` runs Python with your own
  permissions, and `--root` does not limit it.

## Over HTTP

`rewindow-mcp --http 8765` serves several clients at `http://127.0.0.1:8765/mcp`. Each path `/mcp/NAME` is a session.
The clients of a session share its views and groups. Changes are reported to each client separately. `--http HOST:8765`
listens on another address.

### The token

Each request needs a bearer token, because other users of the machine can reach the port.
- The first start generates a token and writes it to `mcp-token` in the [state directory](configuration.md). Only you
  can read this file.
- `--token-file FILE` or the environment variable `REWINDOW_MCP_TOKEN` sets another token, of at least 16 characters.
- Configurations never contain the token. They name the variable, so set it: `export REWINDOW_MCP_TOKEN=$(cat
  ~/.local/state/rewindow/mcp-token)`.
- `--no-token` serves requests without a token. It needs a loopback address, and cannot be combined with `--allow-run`.

### Other limits

- Requests must name this machine in `Host`, on every address. Requests from web pages of another origin (`Origin`) are
  refused.
- A connection may stay for 10 s without an accepted request. If 64 do so and one more arrives, the oldest is closed.
  There may be 320 connections in all.
- `--allow-host NAME` allows another name in `Host`, such as the name of a reverse proxy. Names must match completely,
  with any port.
- There is no TLS. On a network that you do not control, put a proxy with TLS in front.
- A session id of the protocol (`Mcp-Session-Id`) is valid only on its own path.
- At most 64 sessions are in use at once. A session takes about 400 bytes of memory for each recorded call. Its log is
  on disk.
- After 30 idle minutes, a session's process ends. If another session needs its place, the session is closed. The next
  call opens it again, with its views and groups.
- At most 64 clients at once can use the protocol of 2025-11-25 or earlier. After 30 idle minutes such a client must
  connect again.
- A request has at most 4 MiB.
- SIGTERM or Ctrl-C ends the server. Running calls get two seconds to finish.
"""
_ADDRESS = "http://127.0.0.1:8765/mcp"
_TITLES = {
    "claude": "Claude Code",
    "codex": "Codex",
    "goose": "goose",
    "cursor": "Cursor",
    "vscode": "VS Code",
    "gemini": "Gemini CLI",
    "inspector": "MCP Inspector",
}
_NOTES = {
    "claude": """\
`alwaysLoad` has two effects. Claude Code gives its models the full descriptions of the tools, about 900 tokens, instead
of names to search for. And its start waits for the server.

The tools themselves also ask for full descriptions, so `claude mcp add rewindow -- rewindow-mcp` works, too. Claude
Code asks once for each tool. `--allowedTools mcp__rewindow` allows all of them.""",
    "codex": """\
Without `required`, a first turn may start before the server is ready. It then has no tools of the server. The timeout
is long enough for the longest statement of `run`. `codex exec` accepts the configuration on its command line: `-c
'mcp_servers.rewindow.command="rewindow-mcp"'`.""",
    "goose": """\
`goose run --with-extension "rewindow-mcp --root DIR"` needs no file.""",
    "inspector": """\
The Inspector does not expand environment variables. Over HTTP, `--header "Authorization: Bearer TOKEN"` adds the
token.""",
}
_LANGUAGES = {"codex": "toml", "goose": "yaml"}


def tools_page() -> str:
    """The whole page of the tools, resources and prompts."""
    parts = [_TOOLS_HEAD]
    parts += [_tool(row, "") for row in TOOLS]
    parts += [_tool(row, "Only with `--allow-run`. ") for row in PYTHON_TOOLS]
    rows = [f"| `{uri}` | {words} |" for uri, words in TEMPLATES.items()]
    parts.append("\n".join(["## Resources\n", "| URI | content |", "| --- | --- |", *rows]) + "\n")
    rows = [f"| `{row.name}` | {row.description} | {_prompt_arguments(row)} |" for row in PROMPTS.values()]
    parts.append("\n".join(["## Prompts\n", "| prompt | purpose | arguments |", "| --- | --- | --- |", *rows]) + "\n")
    return "\n".join(parts)


def clients_page() -> str:
    """The whole page of the clients."""
    return "\n".join([_CLIENTS_HEAD, *_clients()])


def _prompt_arguments(row: PromptRow) -> str:
    return "; ".join(f"`{name}`: {words}" for name, words in row.arguments.items())


def _tool(row: ToolRow, note: str) -> str:
    required = row.schema.get("required", ())
    lines = [f"## `{row.name}`: {row.title}", "", f"{note}{row.description}", ""]
    lines += ["| argument | meaning | values |", "| --- | --- | --- |"]
    for name, schema in row.schema["properties"].items():
        needed = " (required)" if name in required else ""
        lines.append(f"| `{name}`{needed} | {_cell(schema.get('description', ''))} | {_values(schema)} |")
    return "\n".join(lines) + "\n"


def _values(schema: Mapping[str, Any]) -> str:
    branches = branches_of(schema)
    if len(branches) > 1:
        return " or ".join(map(_values, branches))
    text: str = schema["type"]
    if "minimum" in schema or "maximum" in schema:
        text += (
            f", {schema.get('minimum', '')} to {schema['maximum']:,}"
            if "maximum" in schema
            else f", from {schema['minimum']}"
        )
    if "maxLength" in schema:
        text += f", at most {schema['maxLength']:,} characters"
    if "items" in schema:
        text += f" of {_values(schema['items'])}, at most {schema['maxItems']}"
    return text


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _clients() -> Iterator[str]:
    for name, form in FORMATS.items():
        language = _LANGUAGES.get(name, "json")
        stdio = form.text(Launch(command="rewindow-mcp", arguments=("--root", "/home/me/project")))
        http = form.text(Launch(command="rewindow-mcp", url=_ADDRESS, has_token=True))
        notes = f"{_NOTES[name]}\n\n" if name in _NOTES else ""
        yield f"## {_TITLES[name]}\n\n{notes}Put this into {form.place} to make the client start the server:\n"
        yield f"```{language}\n{stdio}```\n\nOr over HTTP:\n\n```{language}\n{http}```\n"
