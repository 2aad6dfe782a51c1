"""`CodeGenServer`: runs the program in the last code block on every test of the task."""

import re
from collections.abc import Sequence
from typing import Any, Final

from pydantic import Field, PrivateAttr, model_validator

from palestra.resources_servers.code_gen.grading import json_value
from palestra.resources_servers.code_gen.suite import Suite, SuiteLimits, Verdict, run_tests
from palestra.resources_servers.key_metrics import AttemptsServer
from palestra.sandbox import Sandbox, SandboxSettings
from palestra.schema import VerifyRequest, VerifyResponse, WireModel
from palestra.server import ResourcesServerConfig

DEEPER: Final = 3
"""How many columns deeper than the opening fence a closing fence may be indented."""

_FENCE: Final = re.compile(r"`{3,}")
_MARGIN: Final = re.compile(r"\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)?(?=`)")
"""Matches what precedes a fence: blanks, and a list marker where the fence begins a list item."""
_NAME: Final = re.compile(r"[\w+#.-]+\s*")


class CodeGenConfig(ResourcesServerConfig):
    """The settings of `code_gen`."""

    test_cpu_s: float = Field(default=10.0, gt=0)
    """The CPU seconds that a program may use for one test."""

    test_wall_s: float = Field(default=100.0, gt=0)
    """The elapsed seconds that a program may take for one test, including time spent waiting."""

    memory_mib: int = Field(default=4096, ge=64)
    """The memory of the program in MiB, including some 15 MiB for the Python interpreter."""

    output_kib: int = Field(default=16_384, ge=1)
    """The KiB that a program may write for one test."""

    sandbox: SandboxSettings = SandboxSettings()
    """The settings of the sandbox that runs the programs."""


class UnitTests(WireModel):
    """The tests of a task: inputs and expected outputs."""

    inputs: list[str] = Field(min_length=1)
    """The standard input, one text per test. With `fn_name`: the arguments, one JSON value per
    line."""

    outputs: list[str]
    """The expected standard output, one text per test. With `fn_name`: the expected result as JSON.
    """

    fn_name: str | None = None
    """The function, or the method of class `Solution`, to call. Without it, the whole program is
    run."""

    @model_validator(mode="after")
    def _complete(self) -> "UnitTests":
        if len(self.inputs) != len(self.outputs):
            raise ValueError(f"{len(self.inputs)} inputs, but {len(self.outputs)} outputs")
        if self.fn_name:
            for number, (stdin, expected) in enumerate(zip(self.inputs, self.outputs, strict=True)):
                _check_json(f"inputs[{number}]", *stdin.split("\n"))
                _check_json(f"outputs[{number}]", expected)
        return self


def _check_json(where: str, *texts: str) -> None:
    for text in texts:
        try:
            json_value(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{where} is not JSON, but the tests of a function must be JSON: {error}"
            ) from None


class VerifierMetadata(WireModel):
    """The part of a row that only the verifier reads: the tests."""

    unit_tests: UnitTests


class CodeGenVerifyRequest(VerifyRequest):
    """The fields that a row needs for its program to be tested."""

    verifier_metadata: VerifierMetadata


class CodeGenServer(AttemptsServer):
    """A resources server that runs the model's program in a sandbox."""

    config: CodeGenConfig

    _sandbox: Sandbox = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Create the sandbox object. The sandbox itself starts in `start`, or with the first
        program.
        """
        super().model_post_init(context)
        self._sandbox = Sandbox(self.config.sandbox)

    async def start(self) -> None:
        """Start the sandbox. Raises ConfigError: no sandbox works on this machine."""
        await self._sandbox.start()

    async def stop(self) -> None:
        """Stop the sandbox and the programs that still run."""
        await self._sandbox.aclose()

    async def verify(self, body: CodeGenVerifyRequest) -> VerifyResponse:
        """Return reward 1.0 when the program passes every test; else 0.0."""
        text = body.response.final_text
        code = last_code_block(text)
        reported = {"extracted_model_output": text, "extracted_model_code": code}
        if code is None:
            return self.reply(body, 0.0, **reported, result=None, metadata=None)
        verdict = await self._tested(code, body.verifier_metadata.unit_tests)
        return self.reply(
            body,
            float(verdict.passed),
            **reported,
            result=verdict.result,
            metadata=dict(verdict.metadata),
        )

    async def _tested(self, code: str, unit_tests: UnitTests) -> Verdict:
        config = self.config
        limits = SuiteLimits(
            config.test_cpu_s, config.test_wall_s, config.memory_mib, config.output_kib
        )
        tests = Suite(unit_tests.inputs, unit_tests.outputs, unit_tests.fn_name)
        return await run_tests(self._sandbox, code, tests, limits)


def last_code_block(text: str) -> str | None:
    """Return the text of the last closed block of ``` fences; None when there is none. Never
    raises.

    The rule for ordinary text is that of LiveCodeBench and Markdown: a line with a fence opens a
    block, and the next line with a fence closes it. Unusual fences:

    - A fence with a name, like ```python, never closes a block. Inside an open block it starts a new
      block, and the open one is dropped.
    - A fence indented deeper than the opening one, as in a docstring, is part of the program. So is
      a fence of fewer backticks.
    """
    lines = text.split("\n")
    opened: tuple[int, re.Match[str]] | None = None
    block: tuple[int, int] | None = None
    for number, line in enumerate(lines):
        fence = _FENCE.search(line)
        if fence is None:
            continue
        if opened is None:
            opened = number, fence
            continue
        first, opening = opened
        if fence.start() > opening.start() + DEEPER:
            continue
        if _NAME.fullmatch(line, fence.end()):
            opened = number, fence
        elif len(fence[0]) >= len(opening[0]):
            block, opened = (first, number), None
    if block is None:
        return None
    return "\n".join(_program(lines[block[0]], lines[block[0] + 1 : block[1]]))


def _program(fence: str, lines: Sequence[str]) -> Sequence[str]:
    """Remove the indentation of the opening fence from the lines, if the first line has it."""
    indent = _MARGIN.match(fence)
    margin = re.sub(r"\S", " ", indent[0]) if indent else ""
    first = next((line for line in lines if line.strip()), "")
    return [line.removeprefix(margin) for line in lines] if first.startswith(margin) else lines
