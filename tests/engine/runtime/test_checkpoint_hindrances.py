"""What keeps a process from being copied: threads of libraries, and devices whose memory a fork does not copy."""

from __future__ import annotations

import os

import pytest

from engine.runtime.worker.forking import checkpoint
from engine.runtime.worker.forking.checkpoint import shared, threads_of_libraries

OPENBLAS = "7f0-7f1 r-xp 00000000 00:01 5    /venv/numpy.libs/libscipy_openblas64_-{}.so\n"
GOMP = "7f0-7f1 r-xp 00000000 00:01 6    /venv/torch/lib/libgomp-a34b.so.1\n"


@pytest.mark.parametrize(
    ("threads", "mappings", "reason"),
    [
        (3, OPENBLAS.format(1) * 4, ""),
        (4, OPENBLAS.format(1) * 4, "4 running threads of a library"),
        (6, OPENBLAS.format(1) + OPENBLAS.format(2), ""),
        (1, "", "1 running thread of a library"),
        (1, OPENBLAS.format(1) + GOMP, "running threads of OpenMP"),
    ],
    ids=["OpenBLAS", "OpenBLAS and another", "two of it", "another", "OpenMP"],
)
def test_threads_of_libraries_prevent_a_copy(
    threads: int, mappings: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    assert threads_of_libraries(threads, mappings.encode()) == reason


def test_devices_of_a_gpu_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "_GPUS", ("/dev/full",))
    spares = os.pipe()
    before = shared(spares, frozenset())
    with open("/dev/full", "wb", buffering=0), open("/dev/zero", "rb"):
        during = shared(spares, frozenset())
    for found in (before, during):
        found.close()
    for spare in spares:
        os.close(spare)
    assert (before.gpus, during.gpus) == (0, 1)
