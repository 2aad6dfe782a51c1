"""`MathWithCodeServer`: mathematics with a Python interpreter that runs in the sandbox.

Each rollout has its own interpreter. It starts with the first call, keeps the variables of earlier
calls, and ends with the session. Answers are graded as in `math_with_judge`.
"""

import asyncio
import json
import logging
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Final, Self

from pydantic import Field, PrivateAttr, model_validator

from palestra.resources_servers.math_with_judge.app import MathConfig, MathServer, Task
from palestra.sandbox import (
    SESSION_LIMITS,
    CellLimits,
    CellResult,
    Limits,
    Program,
    PythonSessions,
    Sandbox,
    SandboxSettings,
)
from palestra.schema import (
    JsonObject,
    Response,
    SeedSessionResponse,
    VerifyRequest,
    VerifyResponse,
    WireModel,
    response_of,
)
from palestra.server import Session, tool

logger = logging.getLogger("palestra.math_with_code")

_BEGUN: Final = "python"
"""The key in a session's state which records that the interpreter will be stopped at the end."""
_END_WITHIN_S: Final = 1.0
_LOOK: Final = """
from importlib.util import find_spec
print(*[name for name in {names!r} if find_spec(name) is None])
"""


class MathWithCodeConfig(MathConfig):
    """The settings of the environment."""

    cell_cpu_s: float = Field(default=10.0, gt=0)
    """The CPU seconds of one call. A call stopped at this limit keeps the interpreter's variables.
    """

    cell_wall_s: float = Field(default=60.0, gt=0)
    """The elapsed seconds of one call. A call stopped at this limit ends the interpreter too."""

    output_chars: int = Field(default=20_000, ge=1)
    """The number of characters of `stdout`, `stderr` and `result` that the model sees, for each."""

    memory_mib: int = Field(default=1024, ge=64)
    """The memory of one interpreter in MiB."""

    most_interpreters: int = Field(default=256, ge=1)
    """The largest number of interpreters at the same time. Starting one more stops the one that was
    idle longest; its rollout gets a notice with its next call."""

    libraries: tuple[str, ...] = ("numpy", "scipy", "pandas")
    """The libraries that the prompts promise. A warning at the start lists those that cannot be
    imported."""

    sandbox: SandboxSettings = SandboxSettings()
    """The settings of the sandbox that runs the interpreters."""


class MathWithCodeRow(WireModel):
    """The fields that a row needs for its answer to be graded."""

    expected_result: str | None = Field(default=None, min_length=1)
    r"""The right answer, as LaTeX or plain text, with or without `\boxed{}` or dollar signs."""

    expected_answer: str | None = Field(default=None, min_length=1)
    """The right answer, under the field name of `math_with_judge`."""

    question: str | None = None
    """The problem, shown to the judge. By default, the last message of the prompt."""

    @property
    def expected(self) -> str:
        """The right answer of the row; empty when the row has none."""
        return self.expected_result or self.expected_answer or ""

    @model_validator(mode="after")
    def _says_what_is_expected(self) -> Self:
        if not self.expected:
            raise ValueError("the row has no expected_result")
        return self


class MathWithCodeVerifyRequest(VerifyRequest, MathWithCodeRow):
    """The fields of the row, with the model's response."""


class MathWithCodeServer(MathServer):
    """A resources server that runs code cells, then grades the answer by rules, then by a judge."""

    repeatable: ClassVar[bool | None] = True

    extra: ClassVar[str] = "math-with-code"

    config: MathWithCodeConfig

    _sandbox: Sandbox = PrivateAttr()
    _interpreters: PythonSessions = PrivateAttr()
    _ending: set[asyncio.Task[None]] = PrivateAttr(default_factory=set)

    def model_post_init(self, context: Any, /) -> None:
        """Create the sandbox object. The sandbox itself starts in `start`, or with the first cell."""
        super().model_post_init(context)
        config = self.config
        self._sandbox = Sandbox(config.sandbox)
        self._interpreters = PythonSessions(
            self._sandbox,
            limits=SESSION_LIMITS.model_copy(update={"memory_mib": config.memory_mib}),
            cell_limits=CellLimits(config.cell_cpu_s, config.cell_wall_s, config.output_chars),
            most=config.most_interpreters,
        )

    async def start(self) -> None:
        """Start the sandbox. Raises ConfigError: no sandbox works on this machine, or a library is
        not installed.
        """
        await super().start()
        await self._sandbox.start()
        if self.config.libraries and (missing := await self._missing_libraries()):
            logger.warning(
                "%s: the interpreter cannot import %s, which the prompts promise: "
                "pip install 'palestra[math-with-code]', or give sandbox.python an interpreter "
                "that has them",
                self.name,
                ", ".join(missing),
            )

    async def stop(self) -> None:
        """Stop the interpreters and the worker processes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_WITHIN_S):
                await self._interpreters.aclose()
        await self._sandbox.aclose()  # which ends what is still at work
        if self._ending:
            await asyncio.wait(set(self._ending), timeout=_END_WITHIN_S)
        await super().stop()

    def gold_response(self, row: JsonObject) -> Response | None:
        """Return the expected answer in a box; using the interpreter is optional."""
        return response_of(f"\\boxed{{{MathWithCodeRow.model_validate(row).expected}}}")

    async def seed_session(self, body: MathWithCodeRow) -> SeedSessionResponse:
        """Accept the row. Validating it here rejects a row that cannot be graded before a model is
        called.
        """
        del body
        return SeedSessionResponse()

    @tool
    async def execute_python(self, code: str, session: Session) -> str:
        """Execute Python code to perform calculations. You have access to numpy, scipy, pandas and basic math operations.

        code: The Python code to execute for the calculation.
        """
        if _BEGUN not in session.state:
            session.state[_BEGUN] = True
            session.at_end(partial(self._end, session.id))
        return _cell_text(await self._interpreters.execute(session.id, code))

    async def verify(self, body: MathWithCodeVerifyRequest) -> VerifyResponse:
        """Return reward 1.0 when the rules or the judge find the answer equal to the expected one;
        else 0.0.
        """
        judged = await self.judged(body, Task(body.expected, body.question, "expected_result"))
        return self.reply(
            body,
            judged.reward,
            extracted_answer=judged.extracted,
            accuracy=judged.reward == 1.0,
            library_reward=judged.by_rules,
            judge_evaluations=judged.evaluations,
            grading=judged.grading,
        )

    def _end(self, session_id: str) -> None:
        """Stop a session's interpreter without waiting for it."""
        task = asyncio.get_running_loop().create_task(self._interpreters.close(session_id))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _missing_libraries(self) -> list[str]:
        program = Program.python(_LOOK.format(names=self.config.libraries))
        looked = await self._sandbox.run(program, limits=Limits(cpu_s=20.0))
        return looked.stdout.split()


def _cell_text(cell: CellResult) -> str:
    """Return the result of a cell as JSON text for the model."""
    notice = cell.notice and f"{cell.notice}\n"
    parts = {"stdout": cell.stdout, "stderr": f"{notice}{cell.stderr}", "result": cell.result}
    return json.dumps(parts, ensure_ascii=False)
