"""What it costs to keep a namespace by pickling it with cloudpickle, and to have it again."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import cloudpickle  # type: ignore[import-not-found] -- of the peer's environment
from serving import serve


def main() -> None:
    namespace: dict[str, Any] = {}

    def begin(source: str) -> float:
        namespace.clear()
        exec(source, namespace)
        return 0.0

    def checkpoint() -> float:
        start = perf_counter()
        names = {name: value for name, value in namespace.items() if name != "__builtins__"}
        cloudpickle.dumps(names)
        return perf_counter() - start

    serve({"begin": begin, "checkpoint": checkpoint})


main()
