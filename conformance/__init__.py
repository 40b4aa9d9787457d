"""Judges programs that speak ACP or MCP by what goes over their wire, whoever wrote them.

Four contracts hold it together, each in a module of its own:

1. A **requirement** is data (`requirement`): an id, a level, a source with the sentence that it quotes, what it applies
   to, the scenario that shows it, and its judge. `requirements/` has a folder for each suite, a file for each area.
2. A **scenario** drives (`scenarios/`): it sends bytes and waits, over an abstract peer (`peers/`), no more.
3. A **transcript** (`transcript`) is what happened: bytes, who sent them, milliseconds, and the scenario's own marks.
4. A **judge** reads: a pure function from the traffic of a transcript (`traffic`) to a verdict (`verdict`).

So a saved transcript, and the traffic of two foreign programs, is judged by the same functions as a live one. A suite
(`suites`) names its requirements and scenarios; the runner, the reports and the commands know nothing of any protocol.

Imports none of the other packages of this repository and no protocol's SDK: a mistake there must not be repeated here.
"""
