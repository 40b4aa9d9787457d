"""Writes docs/conformance.md from the registry of the conformance suite: how to use it, and every requirement."""

from __future__ import annotations

from conformance.documents import DOCUMENTS
from conformance.requirement import LEVELS
from conformance.suites import SUITES

from . import default_fields, public_kit

_HEAD = """# The conformance suite

Generated from the requirements; edit those, then run `make docs`.

`rewindow-conformance` tests programs that speak agent protocols, whoever wrote them and in any language, by the
messages that they exchange:

```
pip install .          # in a checkout of this repository
rewindow-conformance acp -- my-agent --its-arguments
rewindow-conformance mcp -- my-server --its-arguments
```

It starts the program once for each scenario, in a process group of its own, and ends it with everything it started.
Each requirement quotes the specification; `rewindow-conformance explain ID` shows the sentence, how it is judged, and
what violates it. The level follows from the sentence:

| level | the specification | decides |
|---|---|---|
| mandatory | says MUST (NOT), or its schema forbids it | yes; so does one that could not be tested |
| capability | says so of programs that advertise a capability | yes |
| advisory | says SHOULD or states a fact, or it is a courtesy of JSON-RPC, or what users reported | no |
| informational | is silent, or contradicts itself | no |

What does not decide is never called a failure: an advisory requirement that is not met is `advice`, an informational
one is a `note`. Reports show for both, as for a failure, the reason, the sentence, the messages, and the command that
repeats the scenario. For a note the sentence is the nearest one, and the report says that it does not say so.

`--auth METHOD` logs in first, by one of the agent's methods. `logout` is only tried with `--allow-logout`, since it
may end what the user has open elsewhere.

A response may take 10 s (`--timeout`), a scenario 30 s (`--scenario-timeout`), and all of them together 300 s
(`--budget`), plus a few seconds for ending programs and for judging, and about fifteen if a program flooded. A scenario
also ends at 64 MiB, a line of more than 16 MiB, 50,000 lines of the program or 100,000 pieces, so that a program that
never stops writing gets its verdict in time. Of its standard error the first and the last 128 KiB are kept.

Exit status: 0 conformant, 1 not conformant, 2 wrong usage, 3 not judged (no answer to initialize, needs authentication,
speaks another version), 130 interrupted, 141 the reader of the output has left. A failure leaves the transcript of its
scenario, and prints the command that repeats it. The formats are in [conformance-formats.md](conformance-formats.md).
What was found in other people's programs is in [conformance-results.md](conformance-results.md).

Reports and messages hold no keys: `***` replaces the values of [variables whose names look
secret](configuration.md#secrets), of `--env`, and of options, assignments, headers, URLs and JSON on the program's
command line whose names look so (`-- env API_KEY=x my-agent`, `--header 'Authorization: Bearer x'`). Transcripts
(`--keep`, and `--transcript` of `trace`) are raw, because a replay needs each byte: they hold the command line and all
that was sent, keys included.

In a project that uses pytest, each requirement is a test of its own, beside the project's tests:

```
pip install '.[pytest]'          # in a checkout of this repository
pytest --acp-agent "my-agent --its-arguments" -k ACP1 --junitxml=report.xml
```

`-k` selects by id, level and scenario, and only the scenarios that are needed are run: once, however many tests and
workers (`-n`) there are. What violates the specification fails; what does not apply or does not decide is skipped with
its reason. Options of `rewindow-conformance acp` go into one: `--acp-options='--timeout 30 --env KEY=x'`. Clients are
judged with `--acp-client` and `--acp-client-options`, MCP servers with `--mcp-server` and `--mcp-options`.

Of MCP servers both versions are judged, 2025-11-25 and 2026-07-28; what a server does not speak or advertise is
skipped. The tools that say `readOnlyHint` are called, with arguments made from their schemas; `--tool NAME --arguments
JSON` names another, `--slow-tool` one that takes seconds, for cancels and progress, and `--allow-destructive` allows
all. A server on HTTP is judged by the official suite: `rewindow-conformance mcp --url http://127.0.0.1:8000/mcp` runs
both of its required sets, and reports what needs fixtures without deciding.

Random messages may find what no requirement covers: `fuzz` sends what the schema allows, and what it nearly allows, and
keeps the shortest messages after which the program died, stayed silent, answered twice or wrote something else.

```
rewindow-conformance fuzz acp --seconds 600 --seed 7 -- my-agent
rewindow-conformance replay fuzz.jsonl -- my-agent
```

Traffic between a real client and a real agent can be judged, too, as far as it shows anything. Tell the client to start
this instead of the agent; every byte is passed on unchanged:

```
rewindow-conformance trace --report report.txt --transcript traffic.jsonl -- my-agent
rewindow-conformance judge --suite acp --html report.html traffic.jsonl
```

An implementation of the View or of request cycles is judged by vectors, through an adapter of a few lines that
[conformance-formats.md](conformance-formats.md#vectors) describes:

```
rewindow-conformance vectors -- my-adapter
```

Clients are judged likewise. `{agent}` becomes an executable without arguments, which plays the agent of one scenario:

```
rewindow-conformance acp-client -- my-client --agent {agent} "Hello."
```

A client has to start its agent, open a session and send one prompt by itself, each time that it is started; it may end
when its turn has ended, or run on. `{cwd}` becomes an empty directory, for clients that are told where to work. Where a
turn is to be cancelled, the client is interrupted (SIGINT), as by Ctrl-C in a terminal. A client that reads its prompt
from standard input is given it by a shell: `-- sh -c 'echo Hello. | my-client "$0"' {agent}`. Tell the client to permit
what the agent asks, where it can be told: what it refuses, though it advertises it, counts as not done.

An editor, which nobody can start so often, is judged from within. `rewindow-conformance acp-client --editor` prints a
path; enter it in the editor as the command of an agent, open a chat, and type `all`, the id of a requirement, or the
name of a scenario. What comes of it is shown in the chat, and once more where the command was started, when Ctrl-C ends
it.

What is not judged of agents, because the wire does not show it: that capabilities which a client omits are taken for
unsupported in ways other than calls and updates; that `cwd` is what relative paths are resolved against, and a boundary
of tools; that a plan is complete; that a permission which was refused has no effect outside; HTTP transports of MCP
servers.

Of clients, what people see: that a plan is replaced as a whole, that updates are shown at all, that the terminal of a
tool call stays visible after its release, and that tool calls of a cancelled turn are marked. And what they do only
when their user wants it, such as how they read lists of sessions, page by page.

Of MCP servers, what happens behind the wire: access controls, limits to how often a tool is called, what the output of
a tool was cleaned of. What takes a client that offers more than the suite's does: sampling, elicitation, roots. And
tasks, which 2025-11-25 calls experimental, and 2026-07-28 leaves to an extension.
"""


def page() -> str:
    """The whole page."""
    lines = [_HEAD]
    for load in SUITES.values():
        suite = load()
        counts = {level: sum(row.level == level for row in suite.requirements) for level in LEVELS}
        counted = ", ".join(f"{count} {level}" for level, count in counts.items())
        lines += [f"## {suite.title}", "", f"{len(suite.requirements)} requirements: {counted}.", ""]
        rows = [row for row in suite.requirements if not DOCUMENTS[row.source.document].is_data]
        if len(rows) < len(suite.requirements):
            lines += ["One for each vector and operation, which `rewindow-conformance list` shows, and:", ""]
        lines += ["| id | level | requirement | shown by |", "|---|---|---|---|"]
        lines += [f"| {row.id} | {row.level} | {row.text} | {row.scenario or 'any traffic'} |" for row in rows]
        lines.append("")
        if suite.name == "acp1-agent":
            lines += public_kit.section()
        if suite.name == "acp1-client":
            lines += default_fields.section()
    return "\n".join(lines)
