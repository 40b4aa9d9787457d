"""Writes docs/conformance.md: how to use the conformance suite, and every requirement of its registry."""

from __future__ import annotations

from conformance.documents import DOCUMENTS
from conformance.judging import LEVELS
from conformance.suites.registry import SUITES

from . import default_fields, public_kit

_HEAD = """# The conformance suite

*Generated from `conformance/` by `make docs`.*

`rewindow-conformance` tests programs that speak agent protocols. They may be written in any language, because the suite
looks only at the messages that they exchange:

```
pip install .          # in a checkout of this repository
rewindow-conformance acp -- my-agent --its-arguments
rewindow-conformance acp --protocol-version 2 -- my-new-agent
rewindow-conformance mcp -- my-server --its-arguments
```

A *scenario* is a fixed exchange with the program. The suite starts the program once for each scenario, in its own
process group. Afterwards it ends the program with everything that it started. The suite then checks the *requirements*.
Each requirement quotes the specification. `rewindow-conformance explain ID` shows the quote, the scenario, the check,
and an example of a violation.

Each requirement has a level. The quote determines the level:

| level | the specification | decides |
|---|---|---|
| mandatory | says MUST (NOT), or its schema forbids it | yes, even if it could not be tested |
| capability | says MUST (NOT) for programs that advertise a capability | yes |
| advisory | says SHOULD or states a fact. Also rules from JSON-RPC conventions or user reports | no |
| informational | is silent, or contradicts itself | no |

Only a requirement that decides can fail, and make the program not conformant. If a program does not meet an advisory
requirement, the result is `advice`. For an informational requirement it is a `note`. Reports show advice and notes like
failures: the reason, the quote, the messages, and the command that repeats the scenario. For a note, the specification
may have no sentence. The report then quotes the nearest one and says so.

## Options and limits

`--auth METHOD` first authenticates with one of the agent's methods. The suite tests `logout` only with
`--allow-logout`, because it may end the user's sessions elsewhere.

| limit | default | option |
|---|---|---|
| a response | 10 s | `--timeout` |
| a scenario | 30 s | `--scenario-timeout` |
| all scenarios | 300 s | `--budget` |

After a scenario, the suite ends the program and checks the requirements. This takes a few seconds more, or about 15 if
the program floods its output.

The output is limited too, so that a program that never stops writing can still be judged. A scenario ends when the
program has written 64 MiB, a line of more than 16 MiB, 50,000 lines, or 100,000 chunks. The report has the first and
the last 128 KiB of standard error.

| exit status | meaning |
|---|---|
| 0 | conformant |
| 1 | not conformant |
| 2 | wrong usage |
| 3 | not judged: no answer to initialize, needs authentication, or speaks another version |
| 130 | interrupted |
| 141 | output pipe closed |

If a requirement fails, the suite saves the transcript of the scenario and prints the command that repeats the scenario.
[conformance-formats.md](conformance-formats.md) describes the files. [conformance-results.md](conformance-results.md)
lists results for other programs.

## Keys

Reports and messages contain no keys. A long text is cut before, so a part of a password with spaces, quotation marks,
commas, semicolons, brackets or `|` may stay at the cut. `***` replaces these values:
- of [environment variables whose names look secret](configuration.md#secrets)
- of `--env`
- of options, assignments, headers, URLs and JSON with secret names on the program's command line (`-- env API_KEY=x
  my-agent`, `--header 'Authorization: Bearer x'`)

Transcripts contain everything unchanged, including keys and the command line, because a replay needs each byte. This
applies to `--keep`, and to `--transcript` of `trace`.

## In pytest

With pytest, each requirement is a test item in your project:

```
pip install '.[pytest]'          # in a checkout of this repository
pytest --acp-agent "my-agent --its-arguments" -k ACP1 --junitxml=report.xml
```

`-k` selects items by id, level and scenario. Only the necessary scenarios run. Each runs once, for any number of items
and workers (`-n`). An item fails if the program violates the requirement. Other items that do not pass are skipped with
a reason.

Pass options of `rewindow-conformance acp` in one string: `--acp-options='--timeout 30 --env KEY=x'`. For clients, use
`--acp-client` and `--acp-client-options`. For MCP servers, use `--mcp-server` and `--mcp-options`.

## MCP servers

The suite tests MCP servers in the versions 2025-11-25 and 2026-07-28. It skips requirements for a version or a
capability that a server does not support.

The suite calls tools that have the annotation `readOnlyHint`. It makes the arguments from the tools' schemas. These
options change that:
- `--tool NAME --arguments JSON` names another tool.
- `--slow-tool` names a tool that takes seconds, for tests of cancels and progress.
- `--allow-destructive` allows all tools.

For a server over HTTP, `rewindow-conformance mcp --url http://127.0.0.1:8000/mcp` runs the official suite, with both of
its required sets. Some of their scenarios need test tools or other fixtures in the server. The suite reports these
scenarios, but they do not decide.

## Fuzzing

`fuzz` finds failures that no requirement covers. It sends random messages that the schema allows or nearly allows. A
failure is that the program died, did not answer, answered twice, or wrote something else. `fuzz` saves the shortest
sequence of messages that leads to it:

```
rewindow-conformance fuzz acp --seconds 600 --seed 7 -- my-agent
rewindow-conformance replay fuzz.jsonl -- my-agent
```

## Real traffic

`trace` tests the traffic between a real client and a real agent. It checks the requirements that the traffic shows.
Configure the client to start this command instead of the agent. `trace` forwards every byte unchanged:

```
rewindow-conformance trace --report report.txt --transcript traffic.jsonl -- my-agent
rewindow-conformance judge --suite acp --html report.html traffic.jsonl
```

## Implementations of the View

The *View* is a list of the events that a model reads, and *request cycles* group a session's events by user request.
`vectors` tests an implementation of either. It needs a short adapter program, which
[conformance-formats.md](conformance-formats.md#vectors) describes:

```
rewindow-conformance vectors -- my-adapter
```

## Clients

The suite tests clients in the same way. In the client's command line, `{agent}` is replaced by the path of an
executable without arguments. This executable plays the agent of one scenario:

```
rewindow-conformance acp-client -- my-client --agent {agent} "Hello."
```
- Each time it is started, the client must start its agent, open a session and send one prompt, without user input. It
  may exit after its turn or keep running.
- For clients that need a working directory, `{cwd}` is replaced by an empty directory.
- To cancel a turn, the suite sends SIGINT to the client, as Ctrl-C would.
- If the client reads its prompt from standard input, use a shell: `-- sh -c 'echo Hello. | my-client "$0"' {agent}`.
- If the client has a setting for permissions, allow everything. If the client advertises an action and then refuses it,
  the action counts as not done.

An editor cannot be restarted so often, so you test it from its own chat:
1. Run `rewindow-conformance acp-client --editor`. It prints a path.
2. Enter this path in the editor as an agent command, and open a chat.
3. Type `all`, the id of a requirement, or the name of a scenario. The chat shows the results.
4. Press Ctrl-C in the terminal of step 1. This ends the command, which prints the results again.

## What the suite cannot test

For agents, the messages do not show this:
- whether an agent respects a capability that the client omits, except in calls and updates
- whether relative paths are resolved against `cwd`, and whether tools stay within it
- whether a plan is complete
- whether a refused permission has no effect outside
- HTTP transports of MCP servers

For clients:
- what people see: whether a plan is replaced as a whole, whether updates are shown, whether a tool call's terminal
  stays visible after its release, whether tool calls of a cancelled turn are marked
- actions that a client performs only at its user's request, such as reading session lists page by page

For MCP servers:
- behaviour that messages do not show: access controls, rate limits, sanitizing of tool output
- behaviour that needs a client with more capabilities than the suite has: sampling, elicitation, roots
- tasks, which are experimental in 2025-11-25 and an extension in 2026-07-28
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
            lines += [
                "There is one for each vector and operation, which `rewindow-conformance list` shows. The others are:",
                "",
            ]
        lines += ["| id | level | requirement | shown by |", "|---|---|---|---|"]
        lines += [f"| {row.id} | {row.level} | {row.text} | {row.scenario or 'any traffic'} |" for row in rows]
        lines.append("")
        if suite.name == "acp1-agent":
            lines += public_kit.section()
        if suite.name == "acp1-client":
            lines += default_fields.section()
    return "\n".join(lines)
