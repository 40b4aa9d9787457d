from __future__ import annotations

from engine.worker.failures import MESSAGE_LIMIT, TRACEBACK_LIMIT, describe_failure


def raised(source: str) -> BaseException:
    try:
        exec(compile(source, "<statement 1>", "exec"), {"__name__": "__main__"})
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def test_long_messages_and_tracebacks_keep_both_ends() -> None:
    info = describe_failure(raised("raise ValueError('start' + 'x' * 100_000 + 'end')"))
    assert len(info.message) <= MESSAGE_LIMIT + 100
    assert info.message.startswith("start")
    assert info.message.endswith("end")
    assert len(info.traceback) <= TRACEBACK_LIMIT + 100


def test_a_long_mutual_recursion_is_bounded() -> None:
    source = "\n".join(f"def f{i}(n): return f{(i + 1) % 60}(n + 1)" for i in range(60)) + "\nf0(0)"
    info = describe_failure(raised(source))
    assert info.type == "RecursionError"
    assert len(info.traceback) <= TRACEBACK_LIMIT + 100


def test_groups_and_cyclic_contexts_are_described() -> None:
    info = describe_failure(raised("raise ExceptionGroup('g', [ValueError('a'), TypeError('b')])"))
    assert "ValueError: a" in info.traceback
    a, b = ValueError("a"), ValueError("b")
    a.__context__, b.__context__ = b, a
    assert describe_failure(a).message == "a"
