"""Answers lines of JSON with seconds: a streamed chat completion by OpenAI's library, which our model calls.

`["call", url, body]` sends the body, JSON as text, to that server and reads the answer to its end.
"""

from __future__ import annotations

import json
from functools import cache
from time import perf_counter

from openai import OpenAI
from serving import serve


@cache
def _client(url: str) -> OpenAI:
    return OpenAI(base_url=f"{url}/v1", api_key="sk-benchmark-key")


def call(url: str, body: str) -> float:
    """From the call until the last piece of the answer."""
    completions, sent = _client(url).chat.completions, json.loads(body)
    started = perf_counter()
    for _ in completions.create(**sent):
        pass
    return perf_counter() - started


serve({"call": call})
