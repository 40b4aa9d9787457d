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

*Generated from `mcp_tools/` by `make docs`; a test fails when it is out of date.*

A reply is one text. Its first line has the facts
(`cfg  pyproject.toml  lines 1-38 of 212  398/400 tokens  lod 0  follows  statement 7`), and the content follows, within
`tokens`. Programs find the facts in `_meta["rewindow/handle"]`, too. A failed call returns `isError` and one sentence
that says what would work. Each call of `view` and `group` is a statement on the session's timeline: `rewindow show`
prints it, and an editor can load it. Arguments never become code.

A name may be any text with an ASCII letter or digit. The timeline uses an identifier made from it, which the facts show
first: `my_group (my-group)`. Every tool and resource takes either. A second name that would become the same identifier
is refused.

With `--structured`, `structuredContent` has the facts and the whole text, and each tool has an `outputSchema`. Use it
for programs only: Claude Code and Codex then show their models nothing but that JSON, which costs a fifth more tokens.

`replay` and `rewind` report progress if the request has a `progressToken`: `statement 4 (2 of 5)` as each statement
begins, and the number of restored files. A cancelled request changes nothing.

`run`, `replay`, `rewind`, and `tick` with `wait` return a task after half a second, if the client declares the
extension `io.modelcontextprotocol/tasks` of 2026-07-28 in its request.

- `tasks/get` returns the progress as `statusMessage`, then the result. A task is deleted 30 minutes after it starts or
  10 minutes after it ends, whichever is later.
- `tasks/cancel` stops the task.
- A task continues if its client disconnects. All clients of the same session can see it; other clients cannot.
- When the server stops, it cancels running tasks. `timeline` still has the results of statements.
- A session has at most 64 tasks. Further calls return their results directly.
"""
_CLIENTS_HEAD = """\
# rewindow-mcp in your client

*Generated from `mcp_tools/client_configs.py` by `make docs`; a test fails when it is out of date.*

`rewindow-mcp --print-config CLIENT` prints the configuration for a client, for this installation and with the other
options given. Standard error says which file to put it into. [What the tools do](mcp-tools.md).

`make test-hosts` runs Claude Code 2.1.330, Codex 0.169.0, Gemini CLI 0.61.0 and goose 1.52.0 with the configurations
below, on standard input and output and over HTTP. It checks that their models get the tools and the instructions in the
first prompt, and every reply character for character. `make test-all` runs the MCP Inspector 2.12.0. The formats of
Cursor and VS Code follow their documentation; these programs are not run.

## Which files it opens

- `--root DIR` (repeatable) sets the limit. Without it the limit is the client's roots, or else the current directory.
  `/` and the home directory are refused unless `--root` names them.
- `--session NAME` keeps the handles for next time.
- `--allow-run` adds `run`, Python in a [sandbox](sandbox.md), and `rewind` and `replay`. Python can write only below
  the roots and in a scratch directory, and has no network; `--network` allows TCP. Actions about which an editor would
  ask you are refused. Nothing limits what Python reads.
- If the kernel has no sandbox, the server ends with an error. `--allow-run=unsandboxed` serves Python with your own
  permissions; `--root` does not limit it.

## Over HTTP

`rewindow-mcp --http 8765` serves any number of clients at `http://127.0.0.1:8765/mcp`. Each path `/mcp/NAME` is a
session. Its clients share views and groups, and each has its own cursor for changes. `--http HOST:8765` listens on
another address.

- Each request needs a bearer token, because other users of the machine can reach the port. The first start generates
  it, in `mcp-token` in the [state directory](configuration.md), which only you can read. `--token-file FILE` or the
  variable `REWINDOW_MCP_TOKEN` sets another one, of at least 16 characters. Configurations name the variable and never
  contain the token: `export REWINDOW_MCP_TOKEN=$(cat ~/.local/state/rewindow/mcp-token)`.
- `--no-token` requires none. It needs a loopback address, and never goes with `--allow-run`.
- On every address, requests must name this machine (`Host`), and pages of other origins are refused (`Origin`). Names
  are compared whole, with any port. `--allow-host NAME` adds a name, such as that of a reverse proxy. There is no TLS:
  on a network that is not yours, put a proxy with TLS in front.
- A session id of the protocol (`Mcp-Session-Id`) is valid only on its own path.
- At most 64 sessions are in use at once. A session keeps about 400 bytes in memory for each recorded call; the log
  itself is on disk. After 30 idle minutes a session rests: its process ends, and the session closes if another one
  needs its place. The next call brings it back, with its handles.
- At most 64 clients at once can use the protocol of 2025-11-25 or earlier. After 30 idle minutes such a client must
  connect again. A request has at most 4 MiB.
- SIGTERM or Ctrl-C ends the server; running calls get two seconds.
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
`alwaysLoad` shows its models the full tools, about 900 tokens, instead of names to search for, and makes its start wait
for the server. The tools request the former themselves, so `claude mcp add rewindow -- rewindow-mcp` works, too. Claude
Code asks once for each tool; `--allowedTools mcp__rewindow` allows all.""",
    "codex": """\
Without `required`, a first turn may start before the server is ready, without its tools. `codex exec` takes the same
on its command line: `-c 'mcp_servers.rewindow.command="rewindow-mcp"'`. The timeout allows the longest statement of
`run`.""",
    "goose": """\
`goose run --with-extension "rewindow-mcp --root DIR"` needs no file.""",
    "inspector": """\
It does not expand variables. Over HTTP, `--header "Authorization: Bearer TOKEN"` adds the token.""",
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
