"""Every test of a task, run in the sandbox one after the other until one fails."""

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
"""For the harness, beyond what a test may take."""

PROCESSES: Final = 128
"""Processes and threads of a program: more than a right one takes."""

MIB: Final = 1 << 20
UTF8_BYTES: Final = 4

INLINE_CHARS: Final = 100_000
"""Outputs up to here are compared on the event loop."""

_HARNESS: Final = Path(__file__).with_name("harness.py")


@dataclass(frozen=True, slots=True)
class Suite:
    """Inputs and the outputs that they must give, in the same order."""

    inputs: Sequence[str]
    outputs: Sequence[str]
    fn_name: str | None = None


@dataclass(frozen=True, slots=True)
class SuiteLimits:
    """Limits of one test."""

    cpu_s: float
    wall_s: float
    memory_mib: int
    output_kib: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """`result`: for each test that was run true, or why not; the last may be the first failure."""

    passed: bool
    result: list[bool | int] = field(default_factory=list)
    metadata: Mapping[str, Any] = field(default_factory=dict)


async def run_tests(sandbox: Sandbox, code: str, tests: Suite, limits: SuiteLimits) -> Verdict:
    """Run the tests. Raises `InfraError` when the sandbox failed."""
    whole = _of_all(tests, limits)
    program = conversing(_HARNESS.read_bytes())
    async with sandbox.converse(program, limits=whole) as conversation:
        return await _Running(conversation, tests, limits).verdict(code)


def _of_all(tests: Suite, limits: SuiteLimits) -> Limits:
    """Limits of the harness with all its tests: those that a test may use, and room for ours."""
    count = len(tests.inputs)
    longest_mib = 1 + max(len(given) for given in tests.inputs) * UTF8_BYTES // MIB
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
        for given, expected in zip(self._tests.inputs, self._tests.outputs, strict=True):
            failure, cpu_s = await self._test(given, expected)
            used_s += cpu_s
            if failure is not None:
                return Verdict(False, self._result, failure)
            self._result.append(True)
        return Verdict(True, self._result, {"execution time": used_s})

    async def _test(self, given: str, expected: str) -> tuple[dict[str, Any] | None, float]:
        """What is wrong with the answer to one test, if anything, and its CPU seconds."""
        shown = {"inputs": excerpt(given), "expected": excerpt(expected)}
        try:
            answer = await self._ask(given.encode("utf-8", "replace"))
        except ConversationEnded:
            return self._raised(await self._why_it_ended(), shown), 0.0
        line, _, output = answer.partition(b"\n")
        head = _decoded(line)
        cpu_s = head["cpu_s"] if isinstance(head["cpu_s"], float) else 0.0
        if head["status"] == "timeout":
            self._result.append(TOO_SLOW)
            error = str(head["error"])
            return _failure(TOO_SLOW, "Time Limit Exceeded", error=error, **shown), cpu_s
        if head["status"] == "killed":
            await self._ask_whose_kill_it_was()
        if head["status"] != "ended":
            return self._raised(str(head["error"]), shown), cpu_s
        wrong = await self._wrong(output, expected)
        if wrong is None:
            return None, cpu_s
        self._result.append(False if self._tests.fn_name else WRONG)
        written = excerpt(output.decode(errors="replace"))
        return _failure(WRONG, wrong, output=written, **shown), cpu_s

    async def _wrong(self, output: bytes, expected: str) -> str | None:
        if len(output) + len(expected) > INLINE_CHARS:
            return await asyncio.to_thread(self._compare, output, expected)
        return self._compare(output, expected)

    def _compare(self, output: bytes, expected: str) -> str | None:
        if self._tests.fn_name:
            return None if same_value(output, expected) else "Wrong Answer"
        return wrong_output(output.decode(errors="replace"), expected)

    def _raised(self, error: str, shown: Mapping[str, Any]) -> dict[str, Any]:
        self._result.append(RAISED)
        return _failure(RAISED, "Runtime Error", error=error, **shown)

    async def _ask(self, message: bytes) -> bytes:
        return await self._conversation.ask(message, within_s=self._within_s)

    async def _ask_whose_kill_it_was(self) -> None:
        """Raise `InfraError` when the kernel may have killed it for the machine's sake."""
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


def _failure(code: int, message: str, **more: Any) -> dict[str, Any]:
    return {**more, "error_code": code, "error_message": message}


def _decoded(line: bytes) -> dict[str, Any]:
    """A head line. The program may have taken over the harness, and said anything."""
    given: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        given = json.loads(line)
    known = given if isinstance(given, dict) else {"error": "its test process answered nonsense"}
    return {"status": None, "error": None, "cpu_s": 0.0, **known}
