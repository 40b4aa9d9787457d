"""Scenarios for implementations of the View and of request cycles: each vector's events are asked about, one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conformance.documents import json_document
from conformance.driver import Driver
from conformance.suite import Scenario
from conformance.values import Object

HELLO: Final = "hello"
_DOCUMENTS: Final = {"view.append": "vectors.view", "view.ready": "vectors.view", "cycles": "vectors.cycles"}
"""The operations, each with the vectors that it is asked about."""


def vectors_of(operation: str) -> list[Object]:
    """The vectors of an operation, each with `name`, `events` and `expected`."""
    return json_document(_DOCUMENTS[operation])["vectors"]


def question_id(operation: str, vector: Object) -> str:
    """The id of the question, and of the requirement that its answer shows."""
    return f"VECTORS-{operation.rpartition('.')[2].upper()}-{vector['name']}"


def _hello(driver: Driver) -> None:
    driver.call(HELLO)


def _asking(operation: str) -> Callable[[Driver], None]:
    def run(driver: Driver) -> None:
        if operation not in driver.call(HELLO).get("operations", ()):
            return
        for vector in vectors_of(operation):
            question = driver.request(
                operation, {"events": vector["events"]}, request_id=question_id(operation, vector)
            )
            driver.response(question)

    return run


OPENING: Final = Scenario(HELLO, "Asks for the name and the operations.", _hello, passive=True)
SCENARIOS: Final = tuple(
    Scenario(operation, f"Asks for `{operation}` of each vector's events.", _asking(operation))
    for operation in _DOCUMENTS
)
