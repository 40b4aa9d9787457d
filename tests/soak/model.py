"""A model provider on this machine, in a process of its own: it answers each prompt with one statement, then a word.

The statement depends on the number in the prompt, so that every kind of statement comes again and again. It keeps
nothing. `python -m tests.soak.model` prints its address, and serves until its standard input ends.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from tests.support.llm_server import chunk, sse

STATEMENTS: Final = {
    "view": "v{few} = view('a{few}.py', tokens=300)",
    "follow": "f = view('a{few}.py', tokens=200, freq='Sync')",
    "write": "r = read('n{few}.txt'); w = write('n{few}.txt', 'line {number}\\n' * 40)",
    "edit": "r = read('e.txt'); e = edit('e.txt', r.split()[0], 'word{number}')",
    "own write": "with open('o{few}.txt', 'w') as file: n = file.write('{number}' * 100)",
    "bash": "b = bash('echo {number}; wc -l a0.py'); b.output",
    "grep": "[hit.text for hit in grep('def f1', '.')[:5]]",
    "find": "len(find('*.py'))",
    "compute": "x{few} = [{number}] * 100; sum(x{few})",
    "error": "1 / ({number} - {number})",
    "output": "for each in range(30): print({number}, each)",
}
LEAKY: Final = STATEMENTS | {"compute": "kept = [*globals().get('kept', []), b'x' * 3_000_000]"}
"""What `python -m tests.soak --plant namespace` uses: a session whose namespace takes more and more."""
FEW: Final = 5
"""Names and files are used again, so that a session has no more of them at its end than soon after its beginning."""
_NUMBER: Final = re.compile(rb"Turn (\d+):")
PROMPT: Final = "Turn {number}: {kind}"


def kind_of(number: int) -> str:
    return list(STATEMENTS)[number % len(STATEMENTS)]


def source_of(number: int, statements: Mapping[str, str] = STATEMENTS) -> str:
    return statements[kind_of(number)].format(number=number, few=number % FEW)


def prepare(project: Path) -> None:
    """Make the files that the statements use."""
    project.mkdir(parents=True)
    for few in range(FEW):
        lines = [f"def f{line}(x):\n    return x + {line}\n\n" for line in range(50)]
        (project / f"a{few}.py").write_text("".join(lines))
        (project / f"n{few}.txt").write_text("first\n")
    (project / "e.txt").write_text("word0 is the first\n")


def _answer(body: bytes, statements: Mapping[str, str]) -> bytes:
    numbers = _NUMBER.findall(body)
    at = body.rfind(b"Turn ")
    is_over = b'"role":"tool"' in body[at:].replace(b": ", b":") or b'"tools"' not in body
    if is_over or not numbers:
        return sse(chunk(content="Done."), chunk("stop"), "[DONE]")
    source = source_of(int(numbers[-1]), statements)
    function = {"name": "python", "arguments": json.dumps({"source": source})}
    call = {"index": 0, "id": f"call_{int(numbers[-1])}", "type": "function", "function": function}
    return sse(chunk(tool_calls=[call]), chunk("tool_calls"), "[DONE]")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    statements: Mapping[str, str] = STATEMENTS

    def do_POST(self) -> None:
        answer = _answer(self.rfile.read(int(self.headers["Content-Length"])), self.statements)
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {len(answer)}\r\n\r\n"
        self.wfile.write(head.encode() + answer)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def model_server(*, leaky: bool = False) -> Iterator[dict[str, str]]:
    """Start the provider; yields the variables by which the agent finds it."""
    command = [sys.executable, "-m", "tests.soak.model", *(["--leaky"] if leaky else [])]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        url = process.stdout.readline().strip()
        yield {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "sk-soak-key"}
    finally:
        process.communicate(timeout=60)


def main() -> None:
    if "--leaky" in sys.argv:
        _Handler.statements = LEAKY
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    main()
