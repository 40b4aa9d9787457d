"""Answers lines of JSON with seconds: a streamed chat completion by OpenAI's library, which our model calls.

`["call", url, body]` sends the body, JSON as text, to that server and reads the answer to its end. `["worked", url,
body]` does the same, and answers with the seconds of the processor's time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from time import perf_counter, process_time

from openai import OpenAI
from serving import serve


@cache
def _client(url: str) -> OpenAI:
    return OpenAI(base_url=f"{url}/v1", api_key="sk-benchmark-key")


def call(url: str, body: str, clock: Callable[[], float] = perf_counter) -> float:
    """From the call until the last piece of the answer."""
    completions, sent = _client(url).chat.completions, json.loads(body)
    started = clock()
    for _ in completions.create(**sent):
        pass
    return clock() - started


def worked(url: str, body: str) -> float:
    return call(url, body, process_time)


serve({"call": call, "worked": worked})
