"""Statements in a kernel of IPython, one after the other, each until the kernel is idle again. Keeps nothing."""

from __future__ import annotations

from time import perf_counter

from jupyter_client.manager import start_new_kernel  # type: ignore[import-not-found] -- of the peer's environment
from serving import serve


def main() -> None:
    manager, client = start_new_kernel()
    number = 0

    def statements(count: int) -> float:
        nonlocal number
        start = perf_counter()
        for _ in range(count):
            number += 1
            source = f"name_{number % 10} = [{number}, {number} + 1]; count = {number}"
            client.execute_interactive(source, store_history=False, output_hook=lambda _message: None)
        return perf_counter() - start

    serve({"statements": statements})
    client.stop_channels()
    manager.shutdown_kernel(now=True)


main()
