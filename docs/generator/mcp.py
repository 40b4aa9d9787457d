"""The pages about `rewindow-mcp`: its tools, from their schemas, and what clients are to be told, as it prints that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mcp_tools.arguments import branches_of
from mcp_tools.configs import FORMATS, Launch
from mcp_tools.prompts import PROMPTS
from mcp_tools.resources import TEMPLATES
from mcp_tools.tools import RUNNING, TOOLS
from mcp_tools.tools.row import ToolRow

_TOOLS_HEAD = """\
# The tools of rewindow-mcp

*Generated from `mcp_tools/` by `make docs`; a test fails when it is out of date.*

A reply is one text: a line of facts (`cfg  pyproject.toml:1-38 of 212  398/400 tokens  lod 0  follows  statement 7`),
then what was asked for, within `tokens`. The facts are in `_meta["rewindow/handle"]` too, for programs. What cannot be
done is one sentence that says what would work, with `isError`. Each call of `view` and `group` is a statement of the
session's timeline, which `rewindow show` prints and an editor can load; arguments never become code.

A name may be any text with an ASCII letter or digit. In the timeline it is an identifier, which the facts show first:
`my_group (my-group)`. Every tool and resource takes either. A second name that would become the same identifier is
refused.

With `--structured` the facts and the whole text are in `structuredContent`, too, and each tool has an `outputSchema`.
That is for programs: if it is there, Claude Code and Codex show their models nothing else, as JSON that costs a fifth
more tokens.

`replay` and `rewind` report their progress if the request has a `progressToken`: `statement 4 (2 of 5)` as each
statement begins, and how many files are back. A request that is cancelled leaves everything as it was.

`run`, `replay`, `rewind`, and `tick` with `wait`, are answered with a task after half a second, if the request says
that its client knows the extension `io.modelcontextprotocol/tasks` of 2026-07-28. `tasks/get` gives the result, for
30 minutes from its beginning and 10 from its end, and until then the progress, as `statusMessage`; `tasks/cancel`
stops it. A task continues when its client has gone, and is known to every client of its session and to no other. It
does not outlive the server: what is running then is cancelled, and the results of statements are in `timeline`. A
session has at most 64 tasks; further calls are answered as if the client did not know them.
"""
_CLIENTS_HEAD = """\
# rewindow-mcp in your client

*Generated from `mcp_tools/configs.py` by `make docs`; a test fails when it is out of date.*

`rewindow-mcp --print-config CLIENT` prints the configuration for a client, for this installation and with the other
options given, and says on standard error which file to put it into. [What the tools do](mcp-tools.md).

`make test-hosts` runs Claude Code 2.1.330, Codex 0.169.0, Gemini CLI 0.61.0 and goose 1.52.0 with the configurations
below, on standard input and output and over HTTP, and checks that their models are sent the tools and the instructions
in the first prompt, and every reply character for character. `make test-all` runs the MCP Inspector 2.12.0. The formats
of Cursor and VS Code are those of their documentation; these programs are not run.

## Which files it opens

`--root DIR` (repeatable) sets the limit. Without it the limit is the directories that the client names as its roots,
or else the current directory; `/` and the home directory are refused unless `--root` names them. With
`--session NAME` the same handles are there again next time. `--allow-run` adds `run`, Python in a
[sandbox](sandbox.md): it can write only in these directories and in a scratch directory, has no network (`--network`
allows TCP), and what would ask in an editor is refused; what it reads is not limited. It also adds `rewind` and
`replay`. If the kernel has no sandbox, the server ends and says so; `--allow-run=unsandboxed` then serves Python with
your own rights, which no `--root` limits.

## Over HTTP

`rewindow-mcp --http 8765` serves any number of clients at `http://127.0.0.1:8765/mcp`. Each path `/mcp/NAME` is a
session: clients of one name share its views and groups, and each has a cursor of its own in the changes. Another
address is `--http HOST:8765`.

- Each request presents a bearer token, because other users of the machine can reach the port, too. It is generated at
  the first start, in `mcp-token` in the [state directory](configuration.md), which only you can read.
  `--token-file FILE` or the variable `REWINDOW_MCP_TOKEN` gives another one, of at least 16 characters. Configurations
  name the variable, never the token: `export REWINDOW_MCP_TOKEN=$(cat ~/.local/state/rewindow/mcp-token)`.
- `--no-token` requires none. It is only for a loopback address, and never goes with `--allow-run`.
- Requests have to be addressed to this machine (`Host`), and pages of other origins are refused (`Origin`), on every
  address. Names are compared whole, and any port may follow. Further names, such as that of a reverse proxy, are added
  with `--allow-host NAME`. There is no TLS: on a network that is not yours, put a proxy with TLS in front.
- A session id of the protocol (`Mcp-Session-Id`) is valid on the path that it was issued for, and on no other.
- At most 64 sessions are in use at once. A session keeps about 400 bytes in memory for each recorded call; the log
  itself is on disk. A session that nobody has used for 30 minutes rests: its process ends, and if another session needs
  its place, it is closed. Its next call brings it back, with its handles.
- At most 64 clients at once speak the protocol of 2025-11-25 or before; one that is idle for 30 minutes is forgotten
  and connects anew. A request has at most 4 MiB.
- SIGTERM or Ctrl-C end it: calls under way have two seconds.
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
`alwaysLoad` has its models see the tools as they are, about 900 tokens, instead of names that they have to search for,
and has its start wait for the server. The tools themselves say the former too, for whoever runs
`claude mcp add rewindow -- rewindow-mcp`. It asks for each tool once; `--allowedTools mcp__rewindow` allows all.""",
    "codex": """\
Without `required`, a first turn that is sent before the server is ready has none of its tools. `codex exec` takes the
same on its command line: `-c 'mcp_servers.rewindow.command="rewindow-mcp"'`. A call may take as long as the longest
statement of `run`.""",
    "goose": """\
`goose run --with-extension "rewindow-mcp --root DIR"` needs no file.""",
    "inspector": """\
It expands no variables: over HTTP, `--header "Authorization: Bearer TOKEN"` adds the token.""",
}
_LANGUAGES = {"codex": "toml", "goose": "yaml"}


def tools_page() -> str:
    """The whole page of the tools, resources and prompts."""
    parts = [_TOOLS_HEAD]
    parts += [_tool(row, "") for row in TOOLS]
    parts += [_tool(row, "Only with `--allow-run`. ") for row in RUNNING]
    rows = [f"| `{uri}` | {words} |" for uri, words in TEMPLATES.items()]
    parts.append("\n".join(["## Resources\n", "| URI | what it is |", "| --- | --- |", *rows]) + "\n")
    named = [
        f"| `{row.name}` | {row.words} | {'; '.join(f'`{name}`: {words}' for name, words in row.arguments.items())} |"
        for row in PROMPTS.values()
    ]
    parts.append(
        "\n".join(["## Prompts\n", "| prompt | what it asks for | arguments |", "| --- | --- | --- |", *named]) + "\n"
    )
    return "\n".join(parts)


def clients_page() -> str:
    """The whole page of the clients."""
    return "\n".join([_CLIENTS_HEAD, *_clients()])


def _tool(row: ToolRow, note: str) -> str:
    required = row.schema.get("required", ())
    lines = [f"## `{row.name}`: {row.title}", "", f"{note}{row.description}", ""]
    lines += ["| argument | what it is | values |", "| --- | --- | --- |"]
    for name, schema in row.schema["properties"].items():
        needed = " (needed)" if name in required else ""
        lines.append(f"| `{name}`{needed} | {_cell(schema.get('description', ''))} | {_values(schema)} |")
    return "\n".join(lines) + "\n"


def _values(schema: Mapping[str, Any]) -> str:
    branches = branches_of(schema)
    if len(branches) > 1:
        return " or ".join(map(_values, branches))
    said: str = schema["type"]
    if "minimum" in schema or "maximum" in schema:
        said += (
            f", {schema.get('minimum', '')} to {schema['maximum']:,}"
            if "maximum" in schema
            else f", from {schema['minimum']}"
        )
    if "maxLength" in schema:
        said += f", at most {schema['maxLength']:,} characters"
    if "items" in schema:
        said += f" of {_values(schema['items'])}, at most {schema['maxItems']}"
    return said


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _clients() -> Iterator[str]:
    for name, form in FORMATS.items():
        language = _LANGUAGES.get(name, "json")
        started = form.text(Launch(command="rewindow-mcp", arguments=("--root", "/home/me/project")))
        reached = form.text(Launch(command="rewindow-mcp", url=_ADDRESS, has_token=True))
        notes = f"{_NOTES[name]}\n\n" if name in _NOTES else ""
        yield f"## {_TITLES[name]}\n\n{notes}Put this into {form.place}. The client then starts the server:\n"
        yield f"```{language}\n{started}```\n\nOr over HTTP:\n\n```{language}\n{reached}```\n"
