"""Judges programs that speak ACP or MCP by the messages on their wire, in any language.

Four contracts, each in a module:

1. A **requirement** (`judging`) is data: an id, a level, a quoted source, the scenario that shows it, and its judge.
   `suites/` has a module for each area.
2. A **scenario** (`suite`) sends bytes and waits, over an abstract peer (`peers/`). It draws no conclusions.
3. A **transcript** (`transcript`) records the bytes, their senders and times, and the scenario's marks.
4. A **judge** (`judging`) is a pure function from the traffic of a transcript (`traffic`) to a verdict.

The same judges therefore work on live traffic, on saved transcripts, and on traffic between two other programs. The
runner, the reports and the commands know no protocol.

Imports no other package of this repository and no protocol SDK, so that the suite does not share their bugs.
"""
