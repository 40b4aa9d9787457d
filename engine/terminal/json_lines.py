"""Lines of JSON on standard output: a value without secrets, by its structure. Must not know any command."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection

from ..redaction import redact_json, write_json
from .opened import redactor


def print_json(value: object, exact: Collection[str]) -> None:
    """The value as one line; `exact` are the keys whose values are no texts."""
    write_json(sys.stdout, json.dumps(redact_json(redactor(), value, exact)).encode() + b"\n")
