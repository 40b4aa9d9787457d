"""Fuzzes one target in this process, with libFuzzer: `python -m tests.fuzz.running TARGET [planted] -- FLAG...`.

The functions of the target's modules are instrumented, so that inputs which reach new code are kept. The process ends
with the fuzzer: 0 if its time is over, another status with the input in a file if a target failed.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import atheris

from tests.fuzz.mutating import changed
from tests.fuzz.planted import plant
from tests.fuzz.targets import TARGETS


def main() -> None:
    at = sys.argv.index("--")
    name, *planted = sys.argv[1:at]
    target = TARGETS[name]
    for module in target.modules:
        for function in functions_of(importlib.import_module(module)):
            atheris.instrument_func(function)
    if planted:
        plant(name)

    def mutate(data: Any, size: int, seed: int) -> bytes:
        return changed(target.kind, bytes(data), seed, lambda each: atheris.Mutate(each, max(size, 1)))[:size]

    atheris.Setup([sys.argv[0], *sys.argv[at + 1 :]], lambda data: target.run(bytes(data)), custom_mutator=mutate)
    atheris.Fuzz()


def functions_of(module: ModuleType) -> Iterator[FunctionType]:
    """Yield the functions and methods of a module, and of its submodules if it is a package."""
    for row in pkgutil.iter_modules(getattr(module, "__path__", ())):
        yield from functions_of(importlib.import_module(f"{module.__name__}.{row.name}"))
    own = [each for each in vars(module).values() if getattr(each, "__module__", None) == module.__name__]
    for each in own:
        members = list(vars(each).values()) if inspect.isclass(each) else [each]
        for member in members:
            function = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
            if isinstance(function, FunctionType):
                yield function


if __name__ == "__main__":
    main()
