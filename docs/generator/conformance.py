"""Writes docs/conformance.md: how to use the conformance suite, and every requirement of its registry."""

from __future__ import annotations

from conformance.documents import DOCUMENTS
from conformance.judging import LEVELS
from conformance.suites.registry import SUITES

from . import default_fields, public_kit

_HEAD = """# The conformance suite

Generated from the requirements; edit those, then run `make docs`.

`rewindow-conformance` tests programs that speak agent protocols, in any language, by the messages they exchange:

```
pip install .          # in a checkout of this repository
rewindow-conformance acp -- my-agent --its-arguments
rewindow-conformance acp --protocol-version 2 -- my-new-agent
rewindow-conformance mcp -- my-server --its-arguments
```

It starts the program once for each scenario, in its own process group, and ends it with everything it started. Each
requirement quotes the specification. `rewindow-conformance explain ID` shows the quote, the scenario, the judge, and an
example of a violation. The quote determines the level:

| level | the specification | decides |
|---|---|---|
| mandatory | says MUST (NOT), or its schema forbids it | yes; so does a requirement that could not be tested |
| capability | says so for programs that advertise a capability | yes |
| advisory | says SHOULD or states a fact, or the rule is a JSON-RPC convention or comes from user reports | no |
| informational | is silent, or contradicts itself | no |

Only levels that decide can fail. An advisory requirement that is not met is `advice`, an informational one is a `note`.
Reports show the same for both as for a failure: the reason, the quote, the messages, and the command that repeats the
scenario. A note quotes the nearest sentence, and the report says so.

`--auth METHOD` first authenticates with one of the agent's methods. `logout` is tested only with `--allow-logout`,
because it may end the user's sessions elsewhere.

| limit | default | option |
|---|---|---|
| a response | 10 s | `--timeout` |
| a scenario | 30 s | `--scenario-timeout` |
| all scenarios | 300 s | `--budget` |

These limits do not include the time to end the program and to judge: a few seconds, or about 15 if the program floods
its output. A scenario also ends when the program has written 64 MiB, a line of more than 16 MiB, 50,000 lines, or
100,000 chunks. So a program that never stops writing is still judged. The report keeps the first and last 128 KiB of
standard error.

Exit status: 0 conformant, 1 not conformant, 2 wrong usage, 3 not judged (no answer to initialize, needs authentication,
speaks another version), 130 interrupted, 141 output pipe closed. A failure saves the transcript of its scenario and
prints the command that repeats the scenario. [conformance-formats.md](conformance-formats.md) describes the files.
[conformance-results.md](conformance-results.md) lists results for other programs.

Reports and messages contain no keys. `***` replaces the values of [variables whose names look
secret](configuration.md#secrets), of `--env`, and of options, assignments, headers, URLs and JSON with such names on
the program's command line (`-- env API_KEY=x my-agent`, `--header 'Authorization: Bearer x'`). Transcripts (`--keep`,
and `--transcript` of `trace`) are raw, because a replay needs each byte: they contain the command line and everything
that was sent, including keys.

With pytest, each requirement is a test item in your project:

```
pip install '.[pytest]'          # in a checkout of this repository
pytest --acp-agent "my-agent --its-arguments" -k ACP1 --junitxml=report.xml
```

`-k` selects by id, level and scenario. Only the needed scenarios run, and each runs once, for any number of items and
workers (`-n`). Violations fail. Items that do not apply or do not decide are skipped with a reason. Pass options of
`rewindow-conformance acp` in one string: `--acp-options='--timeout 30 --env KEY=x'`. For clients, use `--acp-client`
and `--acp-client-options`; for MCP servers, `--mcp-server` and `--mcp-options`.

MCP servers are judged in versions 2025-11-25 and 2026-07-28. Requirements for a version or a capability that a server
does not support are skipped. The suite calls tools with the annotation `readOnlyHint`, with arguments made from their
schemas. `--tool NAME --arguments JSON` names another tool, `--slow-tool` one that takes seconds, for cancels and
progress, and `--allow-destructive` allows all tools. A server over HTTP is judged by the official suite:
`rewindow-conformance mcp --url http://127.0.0.1:8000/mcp` runs both of its required sets. Scenarios that need fixtures
are reported and do not decide.

`fuzz` finds failures that no requirement covers. It sends random messages that the schema allows or nearly allows, and
saves the shortest sequence after which the program died, did not answer, answered twice, or wrote something else.

```
rewindow-conformance fuzz acp --seconds 600 --seed 7 -- my-agent
rewindow-conformance replay fuzz.jsonl -- my-agent
```

`trace` judges the traffic between a real client and a real agent, as far as it shows the requirements. Make the client
start this command instead of the agent. Every byte is forwarded unchanged:

```
rewindow-conformance trace --report report.txt --transcript traffic.jsonl -- my-agent
rewindow-conformance judge --suite acp --html report.html traffic.jsonl
```

`vectors` judges an implementation of the View or of request cycles, through a short adapter that
[conformance-formats.md](conformance-formats.md#vectors) describes:

```
rewindow-conformance vectors -- my-adapter
```

Clients are judged in the same way. `{agent}` becomes an executable without arguments, which plays the agent of one
scenario:

```
rewindow-conformance acp-client -- my-client --agent {agent} "Hello."
```

At each start, the client must start its agent, open a session and send one prompt without user input. It may exit after
its turn or keep running. `{cwd}` becomes an empty directory, for clients that need a working directory. To cancel a
turn, the suite interrupts the client (SIGINT), as Ctrl-C would. If the client reads its prompt from standard input, use
a shell: `-- sh -c 'echo Hello. | my-client "$0"' {agent}`. If the client has a setting for permissions, allow
everything: actions that it advertises and then refuses count as not done.

An editor cannot be restarted so often, so it is judged from its own chat. `rewindow-conformance acp-client --editor`
prints a path. Enter it in the editor as an agent command, open a chat, and type `all`, the id of a requirement, or the
name of a scenario. The chat shows the results. Ctrl-C where the command was started ends it and prints them again.

Not judged for agents, because the wire does not show it:

- whether a capability that the client omits changes anything except calls and updates;
- whether relative paths are resolved against `cwd`, and whether tools stay within it;
- whether a plan is complete;
- whether a refused permission has no effect outside;
- HTTP transports of MCP servers.

Not judged for clients:

- what people see: whether a plan is replaced as a whole, whether updates are shown, whether a tool call's terminal
  stays visible after its release, whether tool calls of a cancelled turn are marked;
- what a client does only at its user's request, such as reading session lists page by page.

Not judged for MCP servers:

- what happens behind the wire: access controls, rate limits, sanitizing of tool output;
- what needs a client with more capabilities than the suite's: sampling, elicitation, roots;
- tasks, which are experimental in 2025-11-25 and an extension in 2026-07-28.
"""


def page() -> str:
    """Return the page."""
    lines = [_HEAD]
    for load in SUITES.values():
        suite = load()
        counts = {level: sum(row.level == level for row in suite.requirements) for level in LEVELS}
        counted = ", ".join(f"{count} {level}" for level, count in counts.items())
        lines += [f"## {suite.title}", "", f"{len(suite.requirements)} requirements: {counted}.", ""]
        rows = [row for row in suite.requirements if not DOCUMENTS[row.source.document].is_data]
        if len(rows) < len(suite.requirements):
            lines += ["One for each vector and operation (see `rewindow-conformance list`), and:", ""]
        lines += ["| id | level | requirement | shown by |", "|---|---|---|---|"]
        lines += [f"| {row.id} | {row.level} | {row.text} | {row.scenario or 'any traffic'} |" for row in rows]
        lines.append("")
        if suite.name == "acp1-agent":
            lines += public_kit.section()
        if suite.name == "acp1-client":
            lines += default_fields.section()
    return "\n".join(lines)
