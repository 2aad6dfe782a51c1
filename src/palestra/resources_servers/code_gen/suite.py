"""Run every test of a task in the sandbox, one after another, until one fails."""

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from palestra.errors import InfraError
from palestra.resources_servers.code_gen.grading import excerpt, same_value, wrong_output
from palestra.sandbox import Conversation, ConversationEnded, Limits, Sandbox, Stop, conversing

WRONG, TOO_SLOW, RAISED = -2, -3, -4
"""The codes of LiveCodeBench."""

GRACE_S: Final = 60.0
"""Seconds that the harness gets in addition to the limit of a test."""

PROCESSES: Final = 128
"""The largest number of processes and threads of a program; a right program needs fewer."""

MIB: Final = 1 << 20
UTF8_BYTES: Final = 4

INLINE_CHARS: Final = 100_000
"""Outputs up to this length are compared on the event loop, longer ones in a thread."""

_HARNESS: Final = Path(__file__).with_name("harness.py")


@dataclass(frozen=True, slots=True)
class Suite:
    """The inputs of a task and the expected outputs, in the same order."""

    inputs: Sequence[str]
    outputs: Sequence[str]
    fn_name: str | None = None


@dataclass(frozen=True, slots=True)
class SuiteLimits:
    """The limits of one test."""

    cpu_s: float
    wall_s: float
    memory_mib: int
    output_kib: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a task's tests.

    `result` has one entry per test that was run: True, or False or a LiveCodeBench code for the
    first failure.
    """

    passed: bool
    result: list[bool | int] = field(default_factory=list)
    metadata: Mapping[str, Any] = field(default_factory=dict)


async def run_tests(sandbox: Sandbox, code: str, tests: Suite, limits: SuiteLimits) -> Verdict:
    """Run the tests of a task. Raises `InfraError`: the sandbox failed."""
    overall = _of_all(tests, limits)
    program = conversing(_HARNESS.read_bytes())
    async with sandbox.converse(program, limits=overall) as conversation:
        return await _Running(conversation, tests, limits).verdict(code)


def _of_all(tests: Suite, limits: SuiteLimits) -> Limits:
    """Compute the limits of the whole harness: what all tests may use, plus some for the harness."""
    count = len(tests.inputs)
    longest_mib = 1 + max(len(stdin) for stdin in tests.inputs) * UTF8_BYTES // MIB
    return Limits(
        cpu_s=min(86_400, (limits.cpu_s + 1) * count + GRACE_S),
        wall_s=min(86_400, (limits.wall_s + 1) * count + GRACE_S),
        memory_mib=limits.memory_mib,
        processes=PROCESSES,
        output_kib=limits.output_kib + 64,
        file_mib=max(64, limits.output_kib // 1024 + 1, longest_mib),
        tmp_mib=max(128, 2 * limits.output_kib // 1024 + 64 + longest_mib),
    )


class _Running:
    def __init__(self, conversation: Conversation, tests: Suite, limits: SuiteLimits) -> None:
        self._conversation = conversation
        self._tests = tests
        self._limits = limits
        self._within_s = limits.wall_s + GRACE_S
        self._result: list[bool | int] = []

    async def verdict(self, code: str) -> Verdict:
        task = {
            "code": code,
            "fn_name": self._tests.fn_name,
            "cpu_s": self._limits.cpu_s,
            "wall_s": self._limits.wall_s,
            "output_bytes": self._limits.output_kib * 1024,
        }
        try:
            error = _decoded(await self._ask(json.dumps(task).encode()))["error"]
        except ConversationEnded:
            error = await self._why_it_ended()
        if error is not None:
            return Verdict(False, [RAISED], _failure(RAISED, f"Error during testing: {error}"))
        used_s = 0.0
        for stdin, expected in zip(self._tests.inputs, self._tests.outputs, strict=True):
            failure, cpu_s = await self._test(stdin, expected)
            used_s += cpu_s
            if failure is not None:
                return Verdict(False, self._result, failure)
            self._result.append(True)
        return Verdict(True, self._result, {"execution time": used_s})

    async def _test(self, stdin: str, expected: str) -> tuple[dict[str, Any] | None, float]:
        """Run one test. Return its failure, or None when it passed, and the CPU seconds it used."""
        case = {"inputs": excerpt(stdin), "expected": excerpt(expected)}
        try:
            answer = await self._ask(stdin.encode("utf-8", "replace"))
        except ConversationEnded:
            return self._raised(await self._why_it_ended(), case), 0.0
        line, _, output = answer.partition(b"\n")
        head = _decoded(line)
        cpu_s = head["cpu_s"] if isinstance(head["cpu_s"], float) else 0.0
        if head["status"] == "timeout":
            self._result.append(TOO_SLOW)
            error = str(head["error"])
            return _failure(TOO_SLOW, "Time Limit Exceeded", error=error, **case), cpu_s
        if head["status"] == "killed":
            await self._ask_whose_kill_it_was()
        if head["status"] != "ended":
            return self._raised(str(head["error"]), case), cpu_s
        wrong = await self._wrong(output, expected)
        if wrong is None:
            return None, cpu_s
        self._result.append(False if self._tests.fn_name else WRONG)
        written = excerpt(output.decode(errors="replace"))
        return _failure(WRONG, wrong, output=written, **case), cpu_s

    async def _wrong(self, output: bytes, expected: str) -> str | None:
        if len(output) + len(expected) > INLINE_CHARS:
            return await asyncio.to_thread(self._compare, output, expected)
        return self._compare(output, expected)

    def _compare(self, output: bytes, expected: str) -> str | None:
        if self._tests.fn_name:
            return None if same_value(output, expected) else "Wrong Answer"
        return wrong_output(output.decode(errors="replace"), expected)

    def _raised(self, error: str, case: Mapping[str, Any]) -> dict[str, Any]:
        self._result.append(RAISED)
        return _failure(RAISED, "Runtime Error", error=error, **case)

    async def _ask(self, message: bytes) -> bytes:
        return await self._conversation.ask(message, within_s=self._within_s)

    async def _ask_whose_kill_it_was(self) -> None:
        """Raise `InfraError` when the kernel may have killed the program because the machine had no
        memory.
        """
        result = await self._conversation.end()
        if result.machine_full:
            raise InfraError(
                "a program was killed while the machine ran out of memory",
                hint="run fewer at once (at_once of the sandbox), or lower memory_mib",
            )

    async def _why_it_ended(self) -> str:
        limits, result = self._limits, await self._conversation.end()
        if result.stopped_by is None:
            return f"it ended the process that tests it (exit code {result.exit_code})"
        late = f"it did not end within {limits.wall_s:g} s, nor let itself be ended"
        words = {
            Stop.MEMORY: f"it used more than {limits.memory_mib} MiB of memory",
            Stop.WALL: late,
            Stop.US: late,
            Stop.OUTPUT: f"it wrote more than {limits.output_kib} KiB",
            Stop.CPU: "what it left running used more CPU time than all tests together may",
            Stop.PROCESSES: f"it had more than {PROCESSES} processes",
            Stop.FILES: "it made more files than it may",
        }
        return words[result.stopped_by]


def _failure(code: int, message: str, **details: Any) -> dict[str, Any]:
    return {**details, "error_code": code, "error_message": message}


def _decoded(line: bytes) -> dict[str, Any]:
    """Parse the first line of a reply. Accept any bytes: the program may have taken over the
    harness.
    """
    decoded: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        decoded = json.loads(line)
    verdict = (
        decoded if isinstance(decoded, dict) else {"error": "its test process answered nonsense"}
    )
    return {"status": None, "error": None, "cpu_s": 0.0, **verdict}
