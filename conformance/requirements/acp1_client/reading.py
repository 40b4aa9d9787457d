"""What the judges of this suite share: whether a client goes on, what it advertises, and what its agent gave it."""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Final

from conformance import judging
from conformance.judging_fields import Attempt
from conformance.requirement import Judge
from conformance.traffic import Message, Sender, Traffic
from conformance.values import Object, as_text, at, cut, is_object
from conformance.verdict import PASS, Verdict, failed, not_tested, skipped

SIDE: Final[Sender] = "client"
_POLICY: Final = re.compile(
    r"permission|denied|not (?:allowed|permitted)|disallow|refus|reject|declin|approv|polic|forbid|unauthori", re.I
)
"""Words of a client that has understood what was asked, and does not do it because nobody has allowed it."""
_OF_FORM: Final = (-32700, -32600, -32601, -32602)
"""Codes of errors about the message and not about what it asks for."""
_SHOWN: Final = 80
marked = partial(judging.marked, by="server")
"""The agent's requests under marks with these labels."""
answered = partial(judging.answered, by="server")
"""Every request of the agent under these marks has a response."""


def granted(*labels: str) -> Judge:
    """Every request under these marks has a result; one that the client's own policy refuses says nothing about it."""

    def judge(traffic: Traffic) -> Verdict:
        for request in marked(traffic, *labels):
            if request.answer is not None and (reason := _refusal(request.answer.error)):
                return skipped(
                    f"the client refused {request.method} by a policy of its own ({reason}); "
                    "have it permit that, and judge it again"
                )
        return answered(*labels, expect="result")(traffic)

    return judge


def _refusal(error: Object) -> str:
    """What an error says that is no fault; empty for another."""
    message = as_text(error.get("message"))
    is_about_form = error.get("code") in _OF_FORM
    return f"{cut(message, _SHOWN)!r}" if _POLICY.search(message) and not is_about_form else ""


def probed(judge: Judge) -> Judge:
    """Judges only where the client answered a request that it does not know, before whatever it had to bear."""

    def guarded(traffic: Traffic) -> Verdict:
        before = marked(traffic, "before")
        if not before:
            return not_tested("the client did not get so far")
        if before[0].answer is None:
            return skipped("the client answers no unknown request, so that nothing shows whether it goes on")
        return judge(traffic)

    return guarded


def _goes_on(traffic: Traffic) -> Verdict:
    after = marked(traffic, "alive")
    if after and after[0].answer is not None:
        return PASS
    last = [message.index for message in after]
    if traffic.marks("output-closed"):
        return failed("the client ended the connection", *last)
    return failed("the client answers nothing any more", *last)


goes_on: Final = probed(_goes_on)
"""The client answers after what it had to bear as it did before."""
answers_asked: Final = probed(answered("asked"))
"""The client answers what was asked in an unusual form, as it answered the same in the usual one."""


def bears_at_once(traffic: Traffic) -> Verdict:
    """The client sends its prompt, and answers, after what came together with the session."""
    if not traffic.requests(SIDE, "session/new"):
        return not_tested("the client did not open a session")
    after = marked(traffic, "alive")
    if after and after[0].answer is not None:
        return PASS
    if after and not traffic.marks("output-closed"):
        return skipped("the client answers no unknown request, so that nothing shows whether it goes on")
    return failed("the client ended the connection" if traffic.marks("output-closed") else "the client sent no prompt")


def reaches_prompt(traffic: Traffic) -> Verdict:
    """The client, once it was answered in an unusual way, goes on to a prompt."""
    if not traffic.requests(SIDE, "initialize"):
        return not_tested("the client did not call initialize")
    if traffic.requests(SIDE, "session/prompt"):
        return PASS
    answers = [r.answer for r in traffic.requests(SIDE, "initialize", "session/new") if r.answer is not None]
    return failed("the client sent no prompt after that", *(answer.index for answer in answers[-1:]))


def no_prompt(traffic: Traffic, attempt: Attempt) -> str:
    """The client, answered with broken fields, goes no further."""
    sent = traffic.requests(SIDE, "session/prompt")
    return "" if any(attempt.begin < prompt.index < attempt.end for prompt in sent) else "the client sent no prompt"


def never_sends(mark: str, *methods: str) -> Judge:
    """Once the agent has done what the mark tells, the client calls none of these methods."""

    def judge(traffic: Traffic) -> Verdict:
        since = next((i for i, e in enumerate(traffic.transcript.entries) if e.label == mark), None)
        if since is None:
            return not_tested("the client did not get so far")
        for request in traffic.requests(SIDE, *methods):
            if request.index > since:
                return failed(f"the client called {request.method} all the same", request.index)
        return PASS

    return judge


def ends(traffic: Traffic) -> Verdict:
    """A client that ended by itself after an undisturbed turn does so here too."""
    if not at(traffic.transcript.facts, "calibration.ends_by_itself"):
        return skipped("the client does not end after a turn")
    if not traffic.requests(SIDE, "initialize"):
        return not_tested("the client did not call initialize")
    for entry in traffic.marks("ended"):
        if at(entry.value, "by") in ("SIGTERM", "SIGKILL"):
            return failed("the client still ran, and had to be killed")
        return PASS
    return skipped("the transcript does not say how the client ended")


def capability(traffic: Traffic, path: str) -> bool | None:
    """Whether the client's initialize advertises a capability; None where there is no initialize."""
    for request in traffic.requests(SIDE, "initialize"):
        value = at(request.params, f"clientCapabilities.{path}")
        return value is True or is_object(value)
    return None


def offered(traffic: Traffic, path: str) -> Any:
    """What stands at a path in the agent's answer to initialize; None where nothing does."""
    for request in traffic.requests(SIDE, "initialize"):
        if request.answer is not None and request.succeeded:
            return at(request.answer.result, path)
    return None


def is_offered(traffic: Traffic, path: str) -> bool:
    """Whether the agent advertises a capability: true, or an object."""
    value = offered(traffic, f"agentCapabilities.{path}")
    return value is True or is_object(value)


def only_if_offered(method: str, path: str) -> Judge:
    """The client calls a method only where the agent advertises its capability."""

    def judge(traffic: Traffic) -> Verdict:
        requests = traffic.requests(SIDE, method)
        for request in requests:
            if not is_offered(traffic, path):
                return failed(f"{method} was called, and {path} is not advertised", request.index)
        # That a client keeps away from what is not offered shows in every turn of an agent that offers nothing.
        return PASS if requests or traffic.requests(SIDE, "session/prompt") else not_tested("the client sent no prompt")

    return judge


def sessions(traffic: Traffic) -> list[Message]:
    """The client's requests that opened a session, each with its answer."""
    found = traffic.requests(SIDE, "session/new", "session/load", "session/resume", "session/fork")
    return [request for request in found if request.succeeded]


def session_ids(traffic: Traffic) -> dict[str, Message]:
    """The sessions that were opened, by id."""
    opened: dict[str, Message] = {}
    for request in sessions(traffic):
        given = request.answer.result.get("sessionId") if request.answer else None
        opened[as_text(given) or as_text(request.params.get("sessionId"))] = request
    return opened
