"""`trace`: records the traffic between a client and a program as a transparent proxy, then judges both sides.

Each chunk is recorded before it is forwarded, so a message precedes its answer in the transcript. Ends of streams,
closed pipes, signals and the exit status are passed on as well. The proxy knows no protocol.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from conformance.cli import Command, UsageError
from conformance.cli.streams import Output
from conformance.peers.peer import PeerStartError
from conformance.reports import terminal
from conformance.reports.terminal import Context
from conformance.runner import Run
from conformance.suites.registry import SUITES, suites_of
from conformance.transcript import Entry, Kind, Transcript, entry_line

_CHUNK: Final = 1 << 16
_LEFTOVER_SECONDS: Final = 1.0
"""Seconds for processes that the program started to write, after the program has exited."""
_FORWARDED_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Recorder:
    """A transcript written from several threads, and to a file if there is one."""

    def __init__(self, transcript: Transcript, file: BinaryIO | None = None) -> None:
        self.transcript = transcript
        self._file = file
        self._lock = threading.Lock()
        self._start = time.monotonic()
        self._kept = 0
        self.problem = ""
        """Why the file is incomplete; empty if it is not."""
        self._write(transcript.head())

    def add(self, kind: Kind, data: bytes) -> None:
        """Record a chunk. After the size limit, chunks are forwarded but not recorded."""
        with self._lock:
            if self.transcript.is_full:
                self._mark("stopped", "the traffic reached 64 MiB; the rest was not recorded")
            else:
                self.transcript.add(self._ms(), kind, data)
            self._write_new()

    def end_logs(self) -> None:
        """Record the end of a long log."""
        with self._lock:
            self.transcript.end_logs()
            self._write_new()

    def mark(self, label: str, value: object = None) -> None:
        """Record an event that the bytes do not show."""
        with self._lock:
            self._mark(label, value)
            self._write_new()

    def _mark(self, label: str, value: object) -> None:
        if not any(entry.label == label for entry in self.transcript.entries[-4:]):
            self.transcript.mark(self._ms(), label, value)

    def _ms(self) -> float:
        return (time.monotonic() - self._start) * 1000

    def _write_new(self) -> None:
        entries: list[Entry] = self.transcript.entries[self._kept :]
        self._kept += len(entries)
        for entry in entries:
            self._write(entry_line(entry))

    def _write(self, line: str) -> None:
        if self._file is None or self.problem:
            return
        data = line.encode() + b"\n"
        try:
            if self._file.write(data) < len(data):
                self.problem = "a line was only partly written"
        except OSError as error:
            self.problem = error.strerror or str(error)


def trace(command: Sequence[str], recorder: Recorder) -> int:
    """Forward between our standard streams and the program's until it ends. Return its exit status as a shell would.

    Must run in the main thread, because it handles signals. Raises PeerStartError.
    """
    try:
        process = subprocess.Popen(  # noqa: S603 -- the user's own command is what is traced
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            process_group=0,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        raise PeerStartError(f"{command[0]} cannot be started: {reason}") from None
    assert process.stdin
    assert process.stdout
    assert process.stderr
    step = ["by itself"]

    def pass_on(number: int, _frame: object) -> None:
        step[0] = signal.Signals(number).name
        process.send_signal(number)

    for number in _FORWARDED_SIGNALS:
        signal.signal(number, pass_on)
    ours = sys.stdin.fileno(), sys.stdout.fileno(), sys.stderr.fileno()
    for descriptor in ours:
        os.set_blocking(descriptor, True)

    def input_ended() -> None:
        step[0] = "close stdin" if step[0] == "by itself" else step[0]
        recorder.mark("input-closed")

    _start_thread(_Forwarder(ours[0], process.stdin.fileno(), "client", recorder, input_ended, process.stdin.close))
    outward = [
        _start_thread(
            _Forwarder(process.stdout.fileno(), ours[1], "server", recorder, lambda: recorder.mark("output-closed"))
        ),
        _start_thread(_Forwarder(process.stderr.fileno(), ours[2], "server-log", recorder)),
    ]
    code = process.wait()
    for thread in outward:
        thread.join(_LEFTOVER_SECONDS)
    recorder.end_logs()
    recorder.mark("ended", {"by": step[0], "code": code})
    return code if code >= 0 else 128 - code


class _Forwarder:
    """One direction: read, record and write until the end. Discards data after the reader closes."""

    def __init__(
        self,
        source: int,
        target: int,
        kind: Kind,
        recorder: Recorder,
        ended: Callable[[], None] = lambda: None,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._source = source
        self._target: int | None = target
        self._kind: Kind = kind
        self._recorder = recorder
        self._ended = ended
        self._close = close

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self._source, _CHUNK):
                self._recorder.add(self._kind, data)
                self._pass_on(data)
        self._ended()
        with contextlib.suppress(OSError):
            self._close()

    def _pass_on(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest and self._target is not None:
                rest = rest[os.write(self._target, rest) :]
        except OSError:
            self._target = None


def _start_thread(way: _Forwarder) -> threading.Thread:
    thread = threading.Thread(target=way.run, daemon=True)
    thread.start()
    return thread


def open_transcript(path: Path | None) -> contextlib.AbstractContextManager[BinaryIO | None]:
    """Open the transcript file, unbuffered so that it survives a kill. Raises OSError."""
    if path is None:
        return contextlib.nullcontext()
    return path.open("wb", buffering=0)


# --- the command ------------------------------------------------------------------------------------------------------


_PROTOCOLS: Final = sorted({name.partition("-")[0] for name in SUITES} - {"vectors"})
_RAW_HELP: Final = "record the traffic here, for `judge`; it is raw and contains all sent keys"
_TRACE_EPILOG: Final = """\
examples:
  rewindow-conformance trace -- my-agent --acp          instead of my-agent in an editor
  rewindow-conformance trace --report report.txt --transcript traffic.jsonl -- my-agent
  rewindow-conformance judge --suite acp --html report.html traffic.jsonl

Make the client start this command instead of the program. Every byte is forwarded unchanged, as are signals and the
exit status. When the program ends, both sides are judged. Without --report, the report goes to standard error.
Requirements that the traffic does not show are skipped; `acp` tests all of them.
"""


def configure_trace(parser: argparse.ArgumentParser) -> None:
    """Add the options of `trace`."""
    parser.usage = "rewindow-conformance trace [OPTIONS] -- PROGRAM [ARGS ...]"
    parser.epilog = _TRACE_EPILOG
    parser.add_argument("--protocol", choices=_PROTOCOLS, default="acp", help="the protocol (acp)")
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="write the report to this file (default: standard error)"
    )
    parser.add_argument("--transcript", type=Path, metavar="FILE", help=_RAW_HELP)
    parser.add_argument("--verbose", action="store_true", help="list every requirement, including passed requirements")


def run_trace(arguments: argparse.Namespace) -> int:
    """Forward until the program ends, then judge. Return the program's exit status."""
    if not arguments.program:
        raise UsageError("name the program after `--`: rewindow-conformance trace -- PROGRAM ARGS")
    suites = suites_of(arguments.protocol)
    facts = {"suite": arguments.protocol, "command": arguments.program}
    transcript = Transcript("", facts)
    try:
        with open_transcript(arguments.transcript) as file:
            recorder = Recorder(transcript, file)
            code = trace(arguments.program, recorder)
    except PeerStartError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"--transcript: {arguments.transcript} cannot be written: {error.strerror}") from None
    if recorder.problem:
        sys.stderr.write(f"rewindow-conformance: {arguments.transcript} is incomplete: {recorder.problem}\n")
    context = Context(command=arguments.program)
    texts: list[str] = []
    for suite in suites:
        passive = {row.id: row for row in suite.requirements if row.scenario is None}
        outcome = Run(suite, suite.judge([transcript], passive), [transcript], "", 0.0, saved=True)
        texts.append(terminal.render(outcome, context, verbose=arguments.verbose))
    _write_report("\n".join(texts), arguments.report, arguments.output)
    return code


def _write_report(text: str, path: Path | None, output: Output) -> None:
    if path is None:
        sys.stderr.write(text)
        return
    try:
        output.save(path, text)
    except OSError as error:
        sys.stderr.write(f"rewindow-conformance: the report {path} cannot be written: {error.strerror}\n{text}")


COMMANDS: Final = {
    "trace": Command(configure_trace, run_trace),
}
