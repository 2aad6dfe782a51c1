"""Programs in the sandbox, graded on their tests. Real processes, without isolation where this
machine has none: what isolates is tested in `tests/sandbox`.
"""

import asyncio
import json
import sys
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from decimal import Decimal
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verifying import ENVIRONMENTS, example_rows, post_verify, recorded, said, verify

from palestra.errors import InfraError
from palestra.resources_servers.code_gen.app import CodeGenConfig, CodeGenServer, last_code_block
from palestra.resources_servers.code_gen.grading import (
    same_value,
    wrong_output,
)
from palestra.resources_servers.code_gen.suite import Suite, SuiteLimits, Verdict, run_tests
from palestra.sandbox import (
    ConversationEnded,
    Limits,
    Program,
    Sandbox,
    SandboxResult,
    SandboxSettings,
    Stop,
)
from palestra.schema import read_jsonl
from palestra.transport import HttpClient, ServerClient


@cache
def server() -> CodeGenServer:
    config = CodeGenConfig(
        name="under_test",
        test_cpu_s=2.0,
        test_wall_s=20.0,
        memory_mib=256,
        output_kib=64,
        sandbox=SandboxSettings(allow_process=True),
    )
    return CodeGenServer(config=config, server_client=ServerClient({}, HttpClient()))


@pytest.fixture(autouse=True, scope="module")
def _its_sandbox_ends_with_these_tests() -> Iterator[None]:
    yield
    asyncio.run(server().stop())


def row(inputs: list[str], outputs: list[str], fn_name: str | None = None) -> dict[str, Any]:
    tests = {"inputs": inputs, "outputs": outputs}
    named = {"fn_name": fn_name} if fn_name else {}
    return {"verifier_metadata": {"unit_tests": {**tests, **named}}}


def graded(code: str, given_row: dict[str, Any]) -> dict[str, Any]:
    return verify(server(), given_row, said(f"So:\n```python\n{code}\n```"))


DOUBLE = row(["3\n", "-4\n", "0\n"], ["6\n", "-8\n", "0\n"])
PAIR = row(["1\n2", "3\n4"], ["[1, 2]", "[3, 4]"], "pair")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("```python\na\nb\n```", "a\nb"),
        ("```\nfirst\n```\nbut rather\n```py\nsecond\n```\nDone.", "second"),
        ("```python\na\n```\nand\n```python\ncut o", "a"),
        ("```python\ncut o", None),
        ("print(1)", None),
        ("", None),
        ("``` ```", None),
        ("```python\nfirst\n\nNo:\n```python\nsecond\n```", "second"),
        ("Like ``` this:\n```python\na\n```\nDone.", "a"),
        ("````markdown\n```python\na\n```\n````", "a"),
        ("````python\na = '''\n```\n'''\n````", "a = '''\n```\n'''"),
        (
            '```python\ndef f():\n    """\n    ```python\n    f()\n    ```\n    """\n```',
            'def f():\n    """\n    ```python\n    f()\n    ```\n    """',
        ),
        ("1. ```python\n   a\n   ```", "a"),
        ("```\na\n``` That is it.", "a"),
        ("```python\r\na\r\n```\r\n", "a\r"),
    ],
)
def test_the_program_is_the_last_closed_block(text: str, code: str | None) -> None:
    assert last_code_block(text) == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("1. So:\n   ```python\n   if x:\n     y\n   ```", "if x:\n  y"),
        ("- So:\n\t```\n\n\tx\n\t```", "\nx"),
        ("1. So:\n   ```python\nif x:\n  y\n   ```", "if x:\n  y"),
        ('1. So:\n   ```\n   x = """\n a"""\n   ```', 'x = """\n a"""'),
        ("So: ```\n  x\n```", "  x"),
        ("```\n   x\n```", "   x"),
    ],
)
def test_a_block_within_a_list_is_read_without_the_lists_indentation(text: str, code: str) -> None:
    assert last_code_block(text) == code


@pytest.mark.parametrize(
    ("written", "expected", "right"),
    [
        ("1 2\n3", "1 2\n3\n", True),
        ("\n  1 2 \n3\n\n", "1 2\n3", True),
        ("1.0 2", "1 2.00", True),
        ("1e2", "100", True),
        ("-0", "0", True),
        ("0.1", "0.10000000000000001", False),
        ("50000000000000000", "50000000000000001", False),
        ("1  2", "1 2", True),
        ("yes  no", "yes no", False),
        ("YES", "yes", False),
        ("1 2", "1 2 3", False),
        ("1\n2", "1 2", False),
        ("", "", True),
        ("", "1", False),
        ("sNaN 1", "sNaN 2", False),
        ("NaN", "NaN", True),
    ],
)
def test_outputs_are_compared_by_line_and_numbers_as_decimals(
    written: str, expected: str, right: bool
) -> None:
    assert (wrong_output(written, expected) is None) is right


@given(st.text(), st.text())
def test_no_output_makes_the_comparison_raise(written: str, expected: str) -> None:
    assert wrong_output(written, written) is None
    assert isinstance(wrong_output(written, expected), str | None)


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_a_number_is_right_in_any_spelling(number: Decimal) -> None:
    assert wrong_output(f"{number:f}", f"{number:e}") is None


@pytest.mark.parametrize("returned", [b"", b"[" * 100_000, b"\xff", b'{"a": 1}', b"nan"])
def test_nonsense_that_a_program_returns_is_no_right_value(returned: bytes) -> None:
    assert not same_value(returned, "[1]")


def test_a_program_that_passes_every_test_is_worth_one() -> None:
    result = graded("print(2 * int(input()))", DOUBLE)

    assert (result["reward"], result["result"]) == (1.0, [True, True, True])
    assert result["extracted_model_code"] == "print(2 * int(input()))"
    assert result["metadata"]["execution time"] > 0


def test_tests_end_at_the_first_failure_which_is_reported() -> None:
    result = graded("print(abs(2 * int(input())))", DOUBLE)

    assert (result["reward"], result["result"]) == (0.0, [True, -2])
    assert result["metadata"] == {
        "inputs": "-4\n",
        "expected": "-8\n",
        "output": "8\n",
        "error_code": -2,
        "error_message": "Wrong answer at output_line_idx=0: 8 != -8",
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "result", "message"),
    [
        ("print(1", [-4], "Error during testing"),
        ("x = '\x00'", [-4], "Error during testing"),
        ("1 / 0", [-4], "Runtime Error"),
        ("raise KeyboardInterrupt", [-4], "Runtime Error"),
        ("while True: pass", [-3], "Time Limit Exceeded"),
        ("import os; os.kill(os.getpid(), 9)", [-4], "Runtime Error"),
        ("import os; os._exit(3)", [-4], "Runtime Error"),
        ("x = bytearray(1 << 40)", [-4], "Runtime Error"),
        ("print('x' * 100_000)", [-4], "Runtime Error"),
        ("import os, signal; os.kill(os.getppid(), 9)", [-4], "Runtime Error"),
        ("pass", [-2], "Wrong answer: mismatched output length"),
        ("import os; os.write(1, bytes(range(256)))", [-2], "Wrong answer"),
    ],
)
def test_a_program_that_fails_is_worth_nothing_and_says_how(
    code: str, result: list[int], message: str
) -> None:
    if message == "Wrong answer: mismatched output length":
        given_row = row(["1\n"], ["1\n2\n"])
    else:
        given_row = DOUBLE

    found = graded(code, given_row)

    assert (found["reward"], found["result"]) == (0.0, result)
    assert found["metadata"]["error_message"].startswith(message)


def test_memory_that_a_program_takes_bit_by_bit_is_limited() -> None:
    found = graded("x = []\nwhile True: x.append(bytearray(1 << 20))", DOUBLE)

    assert found["result"] == [-4]
    assert "256 MiB" in found["metadata"]["error"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "import sys\nfor line in sys.stdin: print(2 * int(line))",
        "import sys\nprint(2 * int(sys.stdin.buffer.read()))",
        "from sys import *\nprint(2 * int(stdin.readline()))",
        "print(2 * int(open(0).read()))",
        "def main():\n    print(2 * int(input()))\nif __name__ == '__main__':\n    main()",
        "n = 0\ndef f():\n    global n\n    n = int(input())\nf()\nprint(2 * n)",
        "import atexit\natexit.register(lambda: print(2 * int(input())))",
        "from threading import Thread\nThread(target=lambda: print(2 * int(input()))).start()",
        "while True:\n    try: print(2 * int(input()))\n    except EOFError: break",
        "print(2 * int(input())); exit(1)",
        "print(floor(2 * gcd(int(input()), 0) * copysign(1, 1)) if False else 2 * int(input()))",
        "def f(n): return n and 1 + f(n - 1)\nprint(2 * int(input()) + f(40_000) - 40_000)",
        pytest.param(
            "@functools.cache\ndef f(n): return n and 1 + f(n - 1)\n"
            "print(2 * int(input()) + f(24_000) - 24_000)",
            marks=pytest.mark.skipif(
                sys.version_info >= (3, 12),
                reason="CPython itself ends a recursion through built-in functions there",
            ),
        ),
        "n = int(input())\nassert len(str(10 ** 40_000)) == 40_001\nprint(2 * n)",
        (
            "import os\nfor n in ('.input', '.output', '.told'):\n"
            "    if os.path.exists(n): os.unlink(n)\n    os.mkfifo(n)\nprint(2 * int(input()))"
        ),
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nprint(2 * P(int(input())).x)",
    ],
)
def test_ordinary_ways_of_writing_a_program_work(code: str) -> None:
    assert graded(code, DOUBLE)["reward"] == 1.0


def test_a_program_with_many_threads_is_as_good_as_any() -> None:
    code = (
        "import threading\nn = int(input())\ntogether = threading.Barrier(65)\n"
        "for _ in range(64): threading.Thread(target=together.wait, args=(10,)).start()\n"
        "together.wait(10)\nprint(2 * n)"
    )

    assert graded(code, DOUBLE)["reward"] == 1.0


def test_integers_have_as_many_digits_as_the_benchmark_permits() -> None:
    long = row(["7"], ["1" + "0" * 40_000], "f")

    assert graded("def f(n): return 10 ** 40_000", long)["reward"] == 1.0
    assert graded("def f(n): return 10 ** 40_001", long)["reward"] == 0.0
    assert graded("def f(n): return len(str(10 ** 60_000))", long)["result"] == [-4]


@pytest.mark.slow
def test_a_long_line_takes_little_more_memory_to_compare_than_it_has_itself() -> None:
    line = "7 " * 300_000
    tracemalloc.start()
    try:
        assert wrong_output(f"{line}1", f"{line}1.0") is None
        assert wrong_output("7\n" * 300_000 + "1", "7\n" * 300_000 + "1.0") is None
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < 10 * len(line)


def test_a_value_far_longer_than_the_expected_one_is_not_even_read() -> None:
    returned = b"[" + b"[]," * 300_000 + b"1]"
    tracemalloc.start()
    try:
        assert not same_value(returned, "[1]")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < 100_000
    assert same_value(b"1" + b"0" * 308, "1e308") == (float(10**308) == 10**308)
    assert same_value(json.dumps("\U0001d538" * 9).encode(), '"' + "\U0001d538" * 9 + '"')


def test_one_test_cannot_leave_anything_running_into_the_next() -> None:
    code = (
        "import os, time\nn = int(input())\nif n == 3:\n"
        "    if os.fork() == 0:\n        os.setsid() if os.fork() else None\n        time.sleep(30)\n"
        "print(2 * n)"
    )

    assert graded(code, DOUBLE)["reward"] == 1.0


@pytest.mark.parametrize(
    ("code", "passes"),
    [
        ("class Solution:\n    def pair(self, a, b): return [a, b]", True),
        ("class Solution:\n    def pair(self, a: int, b: int) -> List[int]: return (a, b)", True),
        ("def pair(a, b):\n    print('debug')\n    return [float(a), b]", True),
        ("import numpy as np\ndef pair(a, b): return [np.int64(a), b]", True),
        ("def pair(a, b): return [b, a]", False),
        ("def pair(a, b): return [a, b], 0", False),
        ("def pair(a, b): return None", False),
        ("def pair(a): return [a, a + 1]", False),
        ("def other(a, b): return [a, b]", False),
        ("class L(list):\n    __eq__ = lambda *a: True\ndef pair(a, b): return L()", False),
        ("class I(int):\n    __eq__ = lambda *a: True\ndef pair(a, b): return [I(9), I(9)]", False),
        ("class A:\n    __eq__ = lambda *a: True\ndef pair(a, b): return A()", False),
        ("def pair(a, b):\n    x = []; x.append(x); return x", False),
    ],
)
def test_what_a_function_returns_is_compared_as_a_value(code: str, passes: bool) -> None:
    assert graded(code, PAIR)["reward"] == float(passes)


def test_tuples_inside_of_a_value_and_keys_that_are_no_texts_are_not_equal_to_json() -> None:
    nested = row(["0"], ["[[1, 2]]"], "f")
    keyed = row(["0"], ['{"1": 2}'], "f")

    assert graded("def f(x): return [(1, 2)]", nested)["reward"] == 0.0
    assert graded("def f(x): return [[1, 2]]", nested)["reward"] == 1.0
    assert graded("def f(x): return {1: 2}", keyed)["reward"] == 0.0


def test_text_without_a_program_is_worth_nothing() -> None:
    result = verify(server(), DOUBLE, said("print(2 * int(input()))"))

    assert (result["reward"], result["extracted_model_code"], result["result"]) == (0.0, None, None)


class Listener:
    """A back end and a conversation that keep what is sent into the sandbox."""

    name = "listener"
    isolates = True

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    @asynccontextmanager
    async def converse(
        self, program: Program, limits: Limits, *, rests: bool
    ) -> AsyncIterator["Listener"]:
        self.sent += program.files.values()
        yield self

    async def ask(self, message: bytes, *, within_s: float) -> bytes:
        self.sent.append(message)
        if b"fn_name" in message:
            return b'{"error": null}'
        return b'{"error": null, "status": "ended", "cpu_s": 0.1}\n4f1c-answer'


def test_expected_outputs_never_enter_the_sandbox() -> None:
    listener = Listener()
    tests = Suite(["4f1c-question"], ["4f1c-answer"])

    verdict = asyncio.run(
        run_tests(Sandbox(backend=listener), "code", tests, SuiteLimits(1, 1, 64, 64))
    )

    assert verdict.passed
    assert any(b"4f1c-question" in sent for sent in listener.sent)
    assert not any(b"4f1c-answer" in sent for sent in listener.sent)


class Ending:
    """A back end and a conversation: the code compiles, then `test` is answered or it ends so."""

    name = "ending"
    isolates = True

    def __init__(self, result: SandboxResult, test: bytes | None = None) -> None:
        self._result = result
        self._test = test

    @asynccontextmanager
    async def converse(
        self, program: Program, limits: Limits, *, rests: bool
    ) -> AsyncIterator["Ending"]:
        yield self

    async def ask(self, message: bytes, *, within_s: float) -> bytes:
        if b"fn_name" in message:
            return b'{"error": null}'
        if self._test is None:
            raise ConversationEnded
        return self._test

    async def end(self) -> SandboxResult:
        return self._result


def ended(ending: Ending) -> Verdict:
    tests, limits = Suite(["1"], ["2"]), SuiteLimits(1, 7, 64, 99)
    return asyncio.run(run_tests(Sandbox(backend=ending), "code", tests, limits))


def stopped(by: Stop | None, *, machine_full: bool = False) -> SandboxResult:
    return SandboxResult(
        stdout="", stderr="", exit_code=137, stopped_by=by, machine_full=machine_full
    )


@pytest.mark.parametrize(
    ("by", "told"),
    [
        (None, "it ended the process that tests it (exit code 137)"),
        (Stop.MEMORY, "it used more than 64 MiB of memory"),
        (Stop.WALL, "it did not end within 7 s, nor let itself be ended"),
        (Stop.OUTPUT, "it wrote more than 99 KiB"),
        (Stop.PROCESSES, "it had more than 128 processes"),
        (Stop.FILES, "it made more files than it may"),
    ],
)
def test_a_limit_of_ours_is_told_as_what_it_is(by: Stop | None, told: str) -> None:
    verdict = ended(Ending(stopped(by)))

    assert (verdict.passed, verdict.result) == (False, [-4])
    assert verdict.metadata["error"] == told


def test_there_is_a_word_for_each_limit() -> None:
    assert all(ended(Ending(stopped(by))).metadata["error"] for by in Stop)


def test_a_test_that_was_killed_while_the_machine_was_full_says_nothing_of_the_program() -> None:
    killed = b'{"status": "killed", "error": "ended with exit code -9", "cpu_s": 0.1}\n'

    assert ended(Ending(stopped(None), killed)).result == [-4]
    with pytest.raises(InfraError, match="ran out of memory"):
        ended(Ending(stopped(None, machine_full=True), killed))


@pytest.mark.parametrize(
    "tests",
    [
        {"inputs": [], "outputs": []},
        {"inputs": ["1"], "outputs": []},
        {"inputs": ["{"], "outputs": ["1"], "fn_name": "f"},
        {"inputs": ["1"], "outputs": ["one"], "fn_name": "f"},
        {"inputs": ["[" * 100_000], "outputs": ["1"], "fn_name": "f"},
        {"inputs": "1", "outputs": "1"},
    ],
)
def test_a_row_that_nobody_could_win_is_the_rows_fault(tests: dict[str, Any]) -> None:
    status, body = post_verify(server(), {"verifier_metadata": {"unit_tests": tests}}, said("x"))

    assert status == 422
    assert body["error"]["type"] == "data_error"


@pytest.mark.parametrize("number", range(5))
def test_another_rows_program_does_not_win_an_example_row(number: int) -> None:
    cases = read_jsonl(ENVIRONMENTS / "code_gen" / "data" / "verifier_cases.jsonl")
    answers = {case.row["row"]: case.row["answer"] for case in cases if case.row["reward"] == 1.0}
    task = example_rows("code_gen")[number]

    assert verify(server(), task, said(answers[number]))["reward"] == 1.0
    assert verify(server(), task, said(answers[(number + 1) % 5]))["reward"] == 0.0


def test_recorded_rollouts_get_the_reward_they_had() -> None:
    for task, result in recorded("code_gen"):
        ours = verify(server(), task, *result["response"]["output"])

        reported = ("reward", "extracted_model_output", "extracted_model_code", "result")
        assert {name: ours[name] for name in reported} == {n: result[n] for n in reported}
        assert ours["metadata"].keys() == result["metadata"].keys()
        if "error_code" in result["metadata"]:
            assert ours["metadata"] == json.loads(json.dumps(result["metadata"]))
