"""`CodeGenServer`: the program in the last code block, run on every test of the task."""

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
"""Columns by which a closing fence may stand to the right of the opening one."""

_FENCE: Final = re.compile(r"`{3,}")
_MARGIN: Final = re.compile(r"\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)?(?=`)")
"""Before a fence: blanks, and the mark of the list's item that it may begin."""
_NAME: Final = re.compile(r"[\w+#.-]+\s*")


class CodeGenConfig(ResourcesServerConfig):
    """Settings of `code_gen`."""

    test_cpu_s: float = Field(default=10.0, gt=0)
    """CPU seconds that a program may use for one test."""

    test_wall_s: float = Field(default=100.0, gt=0)
    """Seconds that it may take for one test, however little it computes."""

    memory_mib: int = Field(default=4096, ge=64)
    """Memory that it may use; what the interpreter needs (some 15 MiB) is part of it."""

    output_kib: int = Field(default=16_384, ge=1)
    """What it may write for one test."""

    sandbox: SandboxSettings = SandboxSettings()
    """Where programs run."""


class UnitTests(WireModel):
    """The tests of a task."""

    inputs: list[str] = Field(min_length=1)
    """Standard input, one text per test; with `fn_name` the arguments, one JSON value a line."""

    outputs: list[str]
    """Standard output that must come, one text per test; with `fn_name` JSON of the result."""

    fn_name: str | None = None
    """The function, or the method of class `Solution`, to call."""

    @model_validator(mode="after")
    def _complete(self) -> "UnitTests":
        if len(self.inputs) != len(self.outputs):
            raise ValueError(f"{len(self.inputs)} inputs, but {len(self.outputs)} outputs")
        if self.fn_name:
            for number, (given, expected) in enumerate(zip(self.inputs, self.outputs, strict=True)):
                _check_json(f"inputs[{number}]", *given.split("\n"))
                _check_json(f"outputs[{number}]", expected)
        return self


def _check_json(where: str, *texts: str) -> None:
    for text in texts:
        try:
            json_value(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{where} is no JSON, which a function's tests are: {error}") from None


class VerifierMetadata(WireModel):
    """What the row says for the verifier alone."""

    unit_tests: UnitTests


class CodeGenVerifyRequest(VerifyRequest):
    """What a row must say for its program to be tested."""

    verifier_metadata: VerifierMetadata


class CodeGenServer(AttemptsServer):
    """Runs programs in the sandbox."""

    config: CodeGenConfig

    _sandbox: Sandbox = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """The sandbox starts with the first program, or with the server."""
        super().model_post_init(context)
        self._sandbox = Sandbox(self.config.sandbox)

    async def start(self) -> None:
        """Try the sandbox. Raises ConfigError when there is none."""
        await self._sandbox.start()

    async def stop(self) -> None:
        """Stop what still runs."""
        await self._sandbox.aclose()

    async def verify(self, body: CodeGenVerifyRequest) -> VerifyResponse:
        """1.0 when the program passes every test; else 0.0."""
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

    async def _tested(self, code: str, given: UnitTests) -> Verdict:
        config = self.config
        limits = SuiteLimits(
            config.test_cpu_s, config.test_wall_s, config.memory_mib, config.output_kib
        )
        tests = Suite(given.inputs, given.outputs, given.fn_name)
        return await run_tests(self._sandbox, code, tests, limits)


def last_code_block(text: str) -> str | None:
    """What the last closed block of ``` fences holds; None when there is none. Never raises.

    Ordinary text is read as LiveCodeBench and Markdown both do: a line with a fence opens a block,
    and the next such line closes it. Where fences are odd:

    - A fence with a name, like ```python, never closes. Within a block that was left open it begins
      another, in place of the one left open.
    - A fence that stands deeper than the opening one, as in a docstring, is part of the program; so
      is one of fewer backticks.
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
    """The lines without the indentation of the fence above them, where the first of them has it."""
    found = _MARGIN.match(fence)
    margin = re.sub(r"\S", " ", found[0]) if found else ""
    first = next((line for line in lines if line.strip()), "")
    return [line.removeprefix(margin) for line in lines] if first.startswith(margin) else lines
