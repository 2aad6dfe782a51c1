"""Interpreters that remember: cells, limits of cells, and how many there are."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from escaping import nothing_left

from palestra.errors import InfraError
from palestra.sandbox import (
    CellLimits,
    CellResult,
    ConversationEnded,
    Limits,
    Program,
    PythonSession,
    PythonSessions,
    Sandbox,
    SandboxResult,
    SandboxSettings,
    Stop,
)

SETTINGS = SandboxSettings(backend="auto", allow_process=True)
QUICK = CellLimits(cpu_s=1.0, wall_s=30.0, output_chars=100)


def cells(*codes: str, limits: CellLimits = QUICK) -> list[CellResult]:
    """What the cells of one session show. Nothing of it is left."""

    async def main() -> list[CellResult]:
        async with Sandbox(SETTINGS) as sandbox:
            session = PythonSession(sandbox, cell_limits=limits)
            try:
                return [await session.execute(code) for code in codes]
            finally:
                await session.aclose()

    results = asyncio.run(main())
    assert nothing_left()
    return results


def test_cells_share_names_and_show_what_they_print_and_their_last_value() -> None:
    first, second, third = cells("x = 20", "print('x is', x)\nx + 1", "_ * 2;")

    assert first == CellResult()
    assert (second.stdout, second.result) == ("x is 20\n", "21")
    assert third.result == "42"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("def f():\n    return 1 / 0\nf()", "ZeroDivisionError: division by zero"),
        ("x = (", "SyntaxError: '(' was never closed"),
        ("exit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("import nothing_like_it", "ModuleNotFoundError"),
        ("class E(Exception):\n    def __str__(self): 1 / 0\nraise E", "E"),
        ("class R:\n    def __repr__(self): raise ValueError('no')\nR()", "ValueError: no"),
        ("input()", "EOFError"),
    ],
)
def test_an_exception_is_told_and_leaves_the_session_as_it_is(code: str, told: str) -> None:
    _, failed, after = cells("kept = 1", code, "kept")

    assert failed.failed
    assert told in failed.stderr
    assert "interpreter.py" not in failed.stderr
    assert (after.result, after.notice) == ("1", "")


def test_a_cell_may_recurse_deeply() -> None:
    code = (
        "import sys\nsys.setrecursionlimit(100_000)\ndef f(n): return n and 1 + f(n - 1)\nf(40_000)"
    )

    assert cells(code)[0].result == "40000"


@pytest.mark.skipif(
    sys.version_info >= (3, 12),
    reason="CPython itself ends a recursion through built-in functions there",
)
def test_a_cell_may_recurse_deeply_through_built_in_functions() -> None:
    code = (
        "import functools, sys\nsys.setrecursionlimit(100_000)\n"
        "@functools.cache\ndef f(n): return n and 1 + f(n - 1)\nf(40_000)"
    )

    assert cells(code)[0].result == "40000"


def test_a_traceback_shows_the_lines_of_the_cell() -> None:
    (failed,) = cells("def f():\n    return undefined\nf()", limits=CellLimits())

    assert "    return undefined" in failed.stderr
    assert 'File "<cell 1>", line 3' in failed.stderr


@pytest.mark.slow
def test_a_cell_that_computes_too_long_is_stopped_and_what_was_defined_stays() -> None:
    _, stopped, after = cells("kept = 1", "while True: pass", "kept")

    assert stopped.stderr == "TimeoutError: stopped after 1 s of CPU time\n"
    assert (after.result, after.notice) == ("1", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "notice"),
    [
        (
            "import time\nwhile True:\n    try: time.sleep(9)\n    except BaseException: pass",
            "Stopped: the cell did not end within 1 s.",
        ),
        ("import os; os._exit(3)", "Stopped: the interpreter ended with exit code 3."),
        ("import os; os.kill(os.getpid(), 9)", "Stopped: the interpreter ended with exit code 137"),
        ("x = []\nwhile True: x.append(bytearray(1 << 22))", "Stopped: the cell used more memory"),
    ],
    ids=["hangs", "exits", "killed", "memory"],
)
def test_a_session_that_was_stopped_begins_anew_and_says_so(code: str, notice: str) -> None:
    limits = CellLimits(cpu_s=10, wall_s=1 if "sleep" in code else 30)

    _, stopped, after = cells("kept = 1", code, "'kept' in dir()", limits=limits)

    assert stopped.failed
    assert stopped.notice.startswith(notice)
    assert stopped.notice.endswith("what earlier cells defined is gone.")
    assert (after.result, after.notice) == ("False", "")


def test_what_a_cell_prints_and_shows_is_cut() -> None:
    (result,) = cells("print('x' * 1000)\n'y' * 1000")

    assert result.stdout == "x" * 100 + "\n[the rest is cut]\n"
    assert result.result is not None
    assert len(result.result) < 150


@pytest.mark.slow
def test_endless_output_is_cut_and_stopped() -> None:
    result, after = cells("while True: print('x')", "1")

    assert result.failed
    assert len(result.stdout) < 150
    assert after.result == "1"


def test_of_a_long_traceback_the_end_is_kept() -> None:
    (result,) = cells("raise ValueError('x' * 1000 + 'the end')")

    assert result.stderr == "x" * 92 + "the end\n"


def test_text_that_is_no_text_survives() -> None:
    lone, control, none = cells("print('\\ud800')", "print('\\x00\\x1b')", "'\ud83d'")

    assert lone.stdout == "?\n"
    assert control.stdout == "\x00\x1b\n"
    assert "surrogates not allowed" in none.stderr


class Echo:
    """A back end whose interpreters answer with what they were told, until they are ended."""

    name = "echo"
    isolates = True

    def __init__(self) -> None:
        self.open = 0
        self.begun = 0
        self.began = asyncio.Event()
        self.silent = asyncio.Event()
        self.keeper_died = False
        self.refuses = False

    @asynccontextmanager
    async def converse(
        self, program: Program, limits: Limits, *, rests: bool
    ) -> AsyncIterator["Echo"]:
        if self.refuses:
            raise InfraError("the disk is full")
        self.open += 1
        self.begun += 1
        self.began.set()
        try:
            yield self
        finally:
            self.open -= 1

    async def ask(self, message: bytes, *, within_s: float) -> bytes:
        code = json.loads(message)["code"]
        if code == "wait":
            await self.silent.wait()
        if self.keeper_died:
            raise ConversationEnded
        answer = {"stdout": code, "stderr": "", "result": None, "failed": False, "notice": ""}
        lies = {"lie": b"nonsense", "lie deeply": b"[" * 100_000}
        return lies.get(code) or json.dumps(answer).encode()

    async def end(self) -> SandboxResult:
        if self.keeper_died:
            raise InfraError("the keeper of a sandboxed program died")
        return SandboxResult(stdout="", stderr="", exit_code=137, stopped_by=Stop.US)

    async def aclose(self) -> None:
        pass


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_interpreter_that_was_idle_the_longest_makes_room_and_its_owner_is_told() -> None:
    async def main() -> None:
        echo, clock = Echo(), Clock()
        sessions = PythonSessions(Sandbox(backend=echo), most=2, clock=clock)
        for name in "abc":
            clock.now += 1
            assert not (await sessions.execute(name, "x")).notice
        assert (len(sessions), echo.open) == (2, 2)
        assert "restarted" in (await sessions.execute("a", "x")).notice
        assert not (await sessions.execute("c", "x")).notice
        await sessions.aclose()
        assert echo.open == 0

    asyncio.run(main())


def test_an_idle_interpreter_is_ended_and_a_busy_one_is_not() -> None:
    async def main() -> None:
        echo, clock = Echo(), Clock()
        sessions = PythonSessions(Sandbox(backend=echo), idle_s=10, clock=clock)
        busy = asyncio.ensure_future(sessions.execute("busy", "wait"))
        await echo.began.wait()
        await sessions.execute("idle", "x")
        clock.now = 11
        await sessions.execute("other", "x")
        assert echo.open == 2
        echo.silent.set()
        assert (await busy).stdout == "wait"
        await sessions.close("other")
        await sessions.close("never seen")
        assert echo.open == 1
        await sessions.aclose()

    asyncio.run(main())


def test_a_cancelled_cell_ends_its_interpreter_so_that_no_answer_is_taken_for_another() -> None:
    async def main() -> None:
        echo = Echo()
        session = PythonSession(Sandbox(backend=echo))
        running = asyncio.ensure_future(session.execute("wait"))
        await echo.began.wait()
        running.cancel()
        await asyncio.wait({running})
        assert echo.open == 0
        assert "restarted" in (await session.execute("x")).notice
        assert echo.begun == 2
        await session.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("lie", ["lie", "lie deeply"])
def test_an_interpreter_that_answers_nonsense_is_ended(lie: str) -> None:
    async def main() -> None:
        echo = Echo()
        session = PythonSession(Sandbox(backend=echo))
        result = await session.execute(lie)
        assert result.failed
        assert echo.open == 0
        assert (await session.execute("x")).stdout == "x"
        await session.aclose()

    asyncio.run(main())


def test_when_the_keeper_died_one_call_fails_and_the_next_begins_anew_and_is_told() -> None:
    async def main() -> None:
        echo = Echo()
        session = PythonSession(Sandbox(backend=echo))
        await session.execute("kept = 1")
        echo.keeper_died = True
        with pytest.raises(InfraError, match="keeper"):
            await session.execute("kept")
        echo.keeper_died = False
        after = await session.execute("kept")
        assert (after.stdout, "restarted" in after.notice) == ("kept", True)
        assert (echo.begun, echo.open) == (2, 1)
        await session.aclose()

    asyncio.run(main())


def test_that_state_was_lost_is_told_however_often_a_new_interpreter_fails_to_begin() -> None:
    async def main() -> None:
        echo = Echo()
        session = PythonSession(Sandbox(backend=echo))
        session.forget("State is lost.")
        echo.refuses = True
        with pytest.raises(InfraError, match="disk"):
            await session.execute("x")
        echo.refuses = False
        assert (await session.execute("x")).notice == "State is lost."
        await session.aclose()

    asyncio.run(main())


SPIN = "import threading, time\ndef spin():\n    global n\n    while True: n += 1\nn = 0\n"


@pytest.mark.slow
def test_a_thread_that_a_cell_leaves_behind_is_told_and_stands_still_between_cells() -> None:
    async def main() -> tuple[CellResult, ...]:
        async with Sandbox(SETTINGS) as sandbox:
            session = PythonSession(sandbox, cell_limits=CellLimits(cpu_s=20))
            started = await session.execute(
                SPIN + "threading.Thread(target=spin, name='spinner', daemon=True).start()\n"
                "before = time.process_time()"
            )
            await asyncio.sleep(1.0)  # which is what happens between cells: nothing
            return (
                started,
                await session.execute("time.process_time() - before < 0.5"),
                await session.execute("seen = n; time.sleep(0.2); n > seen"),
            )

    started, still, on = asyncio.run(main())
    assert nothing_left()
    assert started.notice.startswith("Still running: the thread spinner. ")
    assert (still.result, still.notice) == ("True", "")
    assert on.result == "True"


@pytest.mark.slow
def test_at_a_cells_limit_its_threads_are_stopped_and_the_next_has_all_its_time() -> None:
    _, stopped, after = cells(
        SPIN + "kept = 1",
        "t = threading.Thread(target=spin)\nt.start()\nt.join()",
        "import time\nstart = time.process_time()\n"
        "while time.process_time() - start < 0.5: pass\n(kept, t.is_alive())",
    )

    assert stopped.stderr.startswith("TimeoutError: stopped after 1 s of CPU time, of which other")
    assert (after.result, after.notice) == ("(1, False)", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        (
            "import threading\ndef spin():\n    while True:\n        try:\n"
            "            for _ in iter(int, 1): pass\n        except BaseException: pass\n"
            "threading.Thread(target=spin).start()\nfor _ in iter(int, 1): pass"
        ),
        "while True:\n    try:\n        for _ in iter(int, 1): pass\n    except BaseException: pass",
        "import collections, itertools\ncollections.deque(itertools.repeat(0), maxlen=0)",
    ],
    ids=["thread", "cell", "native code"],
)
def test_what_cannot_be_stopped_at_the_cells_time_takes_the_interpreter_with_it(code: str) -> None:
    stopped, after = cells(code, "1")

    assert stopped.notice.startswith("Stopped: the cell went on after its 1 s of CPU time. The int")
    assert (after.result, after.notice) == ("1", "")


def test_a_process_that_a_cell_leaves_behind_is_told_once() -> None:
    first, second = cells(
        "import subprocess, sys\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])",
        "1",
    )

    assert first.notice.startswith("Still running: a process.")
    assert (second.result, second.notice) == ("1", "")
