"""The requests of a statement to the host, and the recorded answers that a replay uses instead.

`Effects.ask` blocks until the answer arrives, or takes it from a `Recording`. It numbers the effects of a run. Threads
may ask in another order in a replay, so a recording finds the answer by operation and arguments. `texts` is not an
effect: it reads the editor's buffers, and the result is recorded as a revision. Nor is `hidden_lines`, which a replay
asks too, nor `has_answer` and `recalled_file`: a statement that replaces another reads the record with them, in
questions with their own numbers.

Must not know the operations, nor how messages travel. Used by the injected names; the interpreter opens and closes it
around each statement.
"""

from __future__ import annotations

import builtins
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Protocol, cast

from ....core.plain_data import argument_digest, clean
from ....core.text import HIDDEN, cut_line
from ....core.toolbox import RECALL_ANSWER, RECALL_FILE, ROUTED, TOOLS, call_title
from ..channel import Inbox
from ..framing import frame
from ..guarding.guard import KEPT_STOPS, ReplayEffect
from ..interrupts import Interrupts
from ..protocol import (
    Answer,
    Ask,
    AskBuffers,
    AskHidden,
    BufferTexts,
    FromWorker,
    HiddenLines,
    RecalledFile,
    ToWorker,
)

_WRITING: Final = frozenset((*ROUTED, *(name for name, tool in TOOLS.items() if tool.kind == "edit")))
_TITLE_CHARS: Final = 120


class Effects:
    """The asking side. One question at a time; threads of the statement wait in a queue.

    `admit` raises the exception for work that may not ask for an operation now.
    """

    def __init__(self, transport: Transport, interrupts: Interrupts, admit: Callable[[str], None]) -> None:
        self._transport = transport
        self._interrupts = interrupts
        self._admit = admit
        self._lock = threading.Lock()
        self._asking = 0
        self._open = False
        self._ticking = False
        self._serving = False
        self._questions = 0
        self._ordinal = 0
        self._recorded: Recording | None = None
        self.planning = False
        """Whether changes outside the namespace are refused."""
        self._answered = False
        """Whether the host answers from a record, and performs nothing."""
        self._stops: list[str] = []
        self._stopped = 0

    @property
    def ours(self) -> bool:
        """False in a process forked by a statement, which must not ask."""
        return self._transport.ours

    @property
    def replaying(self) -> bool:
        """Whether answers come from a recording, and nothing is performed."""
        return self._recorded is not None

    @property
    def goes_by_record(self) -> bool:
        """Whether the statement gets recorded answers, from here or from the host."""
        return self._answered or self._recorded is not None

    def has_answer(self, operation: str, arguments: dict[str, object]) -> bool:
        """Whether there is an unused recorded answer to exactly this request."""
        arguments = clean(arguments)
        if self._recorded is not None:
            return self._recorded.has(operation, arguments)
        return bool(self._recalled(RECALL_ANSWER, {"operation": operation, "arguments": arguments}))

    def recalled_file(self, place: str, *, content: bool) -> RecalledFile | None:
        """The recorded content of the file at the real path `place`.

        None if the host does not answer from a record, or the record does not have the file. Without `content`, the
        content of a file is given as empty.
        """
        found = self._recalled(RECALL_FILE, {"path": place, "content": content})
        return None if found is None else RecalledFile(cast("dict[str, bytes | None]", found)["content"])

    def _recalled(self, operation: str, arguments: dict[str, object]) -> object:
        if not self._answered or self._recorded is not None or not self._transport.ours or self.busy:
            return None
        with self._lock:
            if not self._open:
                return None
            self._asking = threading.get_ident()
            try:
                self._questions += 1
                question = Ask(ordinal=-self._questions, operation=operation, arguments=clean(arguments))
                return self._exchange(question).value
            finally:
                self._asking = 0

    @property
    def asked(self) -> bool:
        """Whether the statement has asked for anything."""
        return self._ordinal > 0

    @property
    def running(self) -> bool:
        """Whether a statement runs, so that it can ask."""
        return self._open

    @property
    def busy(self) -> bool:
        """Whether the calling thread is asking already, and code that interrupted it wants to ask too."""
        return self._asking == threading.get_ident()

    def open(self, recorded: tuple[Answer, ...] | None, *, plan: bool = False, answered: bool = False) -> None:
        """Begin a statement.

        Args:
            recorded: the answers of a replay; None asks the host.
            plan: the statement runs in plan mode.
            answered: the host performs nothing, and answers from its own record.
        """
        self._ordinal = 0
        self._stops, self._stopped = [], 0
        self._recorded = None if recorded is None else Recording(recorded)
        self.planning, self._answered = plan, answered
        self._open = True

    @property
    def stops(self) -> tuple[str, ...]:
        """A phrase for each question without a recorded answer; at most KEPT_STOPS, then a number."""
        left = self._stopped - len(self._stops)
        return (*self._stops, f"made {left:,} more calls without a recorded answer") if left else tuple(self._stops)

    def _stop(self, phrase: str) -> None:
        self._stopped += 1
        if len(self._stops) < KEPT_STOPS:
            self._stops.append(phrase)

    def close(self) -> None:
        """End the statement: wait for a thread that is being answered, then refuse further questions."""
        with self._lock:
            self._open = False

    @contextmanager
    def ticking(self) -> Generator[None]:
        """Allow `texts` during a tick between two statements."""
        self._ticking = True
        try:
            yield
        finally:
            self._ticking = False

    def texts(self, paths: Sequence[str]) -> Mapping[str, str | None]:
        """The texts of these files in the user's editor, by absolute path; empty if it cannot be asked now.

        It cannot be asked outside of a step, in a replay, in a forked process, or during another question of the same
        thread.
        """
        if not self._transport.ours or self.busy:
            return {}
        with self._lock:
            if self._recorded is not None or not (self._open or self._ticking):
                return {}
            self._asking = threading.get_ident()
            try:
                self._questions += 1
                question = AskBuffers(self._questions, tuple(paths))
                with self._interrupts.held():
                    self._transport.send(question)
                while True:
                    message = self._next()
                    if isinstance(message, BufferTexts) and message.number == question.number:
                        return message.texts
            finally:
                self._asking = 0

    @contextmanager
    def serving(self) -> Generator[None]:
        """Allow `hidden_lines` while the host waits for the answer to a request."""
        before, self._serving = self._serving, True
        try:
            yield
        finally:
            self._serving = before

    def hidden_lines(self, text: str) -> Mapping[int, str]:
        """The lines of a text that have secrets, without these, by number from 0.

        If the host cannot be asked now, every line is hidden: between two requests, in a forked process, or during
        another question of the same thread.
        """
        if not text:
            return {}
        if not self._transport.ours or self.busy:
            return _all_hidden(text)
        with self._lock:
            if not self._serving:
                return _all_hidden(text)
            self._asking = threading.get_ident()
            try:
                self._questions += 1
                question = AskHidden(self._questions, text.encode("utf-8", "replace"))
                with self._interrupts.held():
                    self._transport.send(question)
                while True:
                    message = self._next()
                    if isinstance(message, HiddenLines) and message.number == question.number:
                        return message.lines
            finally:
                self._asking = 0

    def ask(self, operation: str, arguments: dict[str, object], basis: str | None = None) -> object:
        """Ask the host; return plain data. `basis` is the digest of the content that a view showed of the file.

        Raises:
            TypeError: an argument is not plain data.
            RuntimeError: no statement is running, or this is a forked process.
            OSError, ValueError ...: the host's answer, by the name of the builtin exception.
            ReplayEffect: a replay has no recorded answer.
        """
        sent = clean(arguments)
        # Checked before the lock, because a fork may have copied it locked.
        if not self._transport.ours:
            raise RuntimeError(f"{operation}() needs the session's own process, not one forked from it")
        self._admit(operation)
        with self._lock:
            if not self._open:
                raise RuntimeError(f"{operation}() can only be called while a statement runs")
            self._asking = threading.get_ident()
            try:
                ordinal, self._ordinal = self._ordinal, self._ordinal + 1
                answer = self._exchange(Ask(ordinal=ordinal, operation=operation, arguments=sent, basis=basis))
            finally:
                self._asking = 0
        if answer.error is not None:
            raise exception_named(answer.error.type, answer.error.message)
        return answer.value

    def _exchange(self, question: Ask) -> Answer:
        ordinal, operation = question.ordinal, question.operation
        if self._recorded is not None:
            answer = self._recorded.take(question)
            if answer is None:
                frame(question)  # if the question was too large to be sent, raises the same error again
                self._stop(_unanswered(question, self._recorded.title_at(ordinal)))
                raise ReplayEffect(f"{operation}() has no recorded answer")
            if answer.lost:
                self._stop(f"called {operation}, whose answer {answer.lost}")
                raise ReplayEffect(f"the answer of {operation}() {answer.lost}; run this again")
            return answer
        with self._interrupts.held():
            self._transport.send(question)
        while True:
            message = self._next()
            # Because the answer to an interrupted question may still arrive.
            if isinstance(message, Answer) and message.ordinal == ordinal:
                return message

    def _next(self) -> ToWorker:
        while True:
            self._transport.wait()
            with self._interrupts.held():
                message = self._transport.take()
            if message is not None:
                return message


class Transport(Protocol):
    """Messages to and from the host: `channel.Channel`, or that of the in-process environment."""

    @property
    def ours(self) -> bool:
        """False in a process forked by a statement, which must not send."""
        ...

    @property
    def idle(self) -> bool:
        """Whether no message waits to be received."""
        ...

    def send(self, message: FromWorker) -> None:
        """Send a message. Raises FrameTooLargeError; nothing is sent then."""
        ...

    @property
    def inbox(self) -> Inbox:
        """Received messages, for threads that wait for something other than an answer."""
        ...

    def wait(self) -> None:
        """Wait until there is a message to receive. An interrupt may end the wait."""
        ...

    def receive(self) -> ToWorker:
        """Receive the next message. Does not return if the host is gone."""
        ...

    def take(self) -> ToWorker | None:
        """The next message, after `wait`; None where what has come is not for `receive`."""
        ...


class Recording:
    """The unused recorded answers."""

    def __init__(self, answers: Iterable[Answer]) -> None:
        self._left = {answer.ordinal: answer for answer in answers}
        self._asked: dict[tuple[str, str], deque[int]] = {}
        for answer in self._left.values():
            if answer.question is not None:
                self._asked.setdefault(answer.question, deque()).append(answer.ordinal)

    def title_at(self, ordinal: int) -> str:
        """The title of the question with that number; empty if its answer was used, or it is unknown."""
        placed = self._left.get(ordinal)
        return "" if placed is None else placed.title

    def has(self, operation: str, arguments: dict[str, object]) -> bool:
        """Whether there is an unused answer to exactly this request."""
        asked = self._asked.get((operation, argument_digest(arguments)), ())
        return any(ordinal in self._left for ordinal in asked)

    def take(self, question: Ask) -> Answer | None:
        """The answer to the same question: the one with its number, else the first unused one, else None."""
        asked = question.operation, argument_digest(question.arguments)
        placed = self._left.get(question.ordinal)
        if placed is not None and placed.question in (asked, None):
            return self._left.pop(question.ordinal)
        same = self._asked.get(asked, deque())
        while same:
            if (ordinal := same.popleft()) in self._left:
                return self._left.pop(ordinal)
        # A written text may contain the time, or the earlier content of a file opened for appending. Its answer does
        # not depend on the text, so it may differ. The answer to a read with other arguments would be a wrong value.
        if placed is not None and placed.question is not None and asked[0] == placed.question[0] in _WRITING:
            return self._left.pop(question.ordinal)
        return None


def _all_hidden(text: str) -> Mapping[int, str]:
    return dict.fromkeys((number for number, line in enumerate(text.split("\n")) if line), HIDDEN)


def exception_named(name: str, message: str) -> Exception:
    """The builtin exception of that name, with the message; RuntimeError for any other name."""
    found = getattr(builtins, name, None)
    if isinstance(found, type) and issubclass(found, Exception):
        try:
            return found(message)
        except TypeError:
            pass
    return RuntimeError(f"{name}: {message}")


def _unanswered(question: Ask, then: str) -> str:
    """A phrase on a question without an answer, and on the recorded one in its place if their titles differ."""
    now = call_title(question.operation, question.arguments)
    if then and then != now:
        return f"asked for {cut_line(now, _TITLE_CHARS)!r} instead of {cut_line(then, _TITLE_CHARS)!r}"
    return f"called {question.operation}, which has no recorded answer"
