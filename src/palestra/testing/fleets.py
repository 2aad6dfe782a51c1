"""A fleet for a test: an environment with its agent, and a scripted model as the policy; task rows."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

from palestra.config import ResolvedConfig, ServerType, load_config
from palestra.errors import ConfigError
from palestra.fleet import Assembly, assembled
from palestra.sandbox import nurseries_kept
from palestra.schema import (
    CREATE_PARAMS,
    TOOL_FAILURES,
    JsonDict,
    JsonObject,
    RunRequest,
    VerifyResponse,
    to_plain,
)
from palestra.testing.places import OF_ONE_TEST, config_of, entrypoint_of
from palestra.testing.scripted import Answer, ScriptedModel


@final
class ScriptedFleet:
    """All servers of an environment's config, with a scripted model; use in a `with` statement.

    The model gives `answers`, one per turn. `model`: a scripted model to use instead.
    """

    def __init__(
        self,
        environment: str | Path,
        *,
        answers: Sequence[Answer] = (),
        model: ScriptedModel | None = None,
    ) -> None:
        path = config_of(environment)
        if path is None and Path(environment).suffix == ".py":
            path = entrypoint_of(environment)
        if path is None:
            entrypoint = entrypoint_of(environment)  # where there is not even that, it says so
            name = entrypoint.parent.name
            raise ConfigError(
                f"{environment} has {entrypoint}, and no config: configs/{name}.yaml is missing",
                hint=f"in the project's folder: palestra init {name} --config-only",
            )
        config = path.absolute()
        # The project is where its folder of servers is, wherever the tests run.
        self._config = load_config(
            config_paths=[str(config)],
            cwd=config.parent if config.suffix == ".py" else config.parents[3],
            required=(),
            use_env_yaml=False,
        )
        self.model = model or ScriptedModel.saying(*answers)
        self.tool_failures: list[dict[str, str]] = []
        """Tool calls of its rollouts that broke, each with `tool`, `type` and `message`."""
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._assembly: Assembly | None = None

    def __enter__(self) -> Self:
        self._runner.__enter__()
        self._assembly = self._runner.run(self._start())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._runner.run(self._stack.aclose())
        finally:
            self._runner.__exit__(kind, error, trace)

    async def _start(self) -> Assembly:
        models = {
            name
            for instance in self._config.instances.values()
            for name in instance.referenced(ServerType.MODEL)
        }
        stand_ins = dict.fromkeys(models, self.model)
        with nurseries_kept(OF_ONE_TEST):
            return await self._stack.enter_async_context(
                assembled(self._config, list(self._config.instances), stand_ins)
            )

    def run(self, row: JsonObject, *, agent: str = "") -> JsonDict:
        """Run one rollout and return the result row. Raises `CallError`, as a collection would
        record it.

        Failed tool calls are in `tool_failures` of the row, and of the fleet.
        """
        if self._assembly is None:
            raise RuntimeError("the fleet is not started: `with fleet:`")
        peer = self._assembly.client.peer(agent or _agent_of(self._config))
        answer = self._runner.run(peer.call("/run", RunRequest.model_validate(row), VerifyResponse))
        result: JsonDict = to_plain(answer)
        self.tool_failures += result.get(TOOL_FAILURES) or []
        return result


def _agent_of(config: ResolvedConfig) -> str:
    agents = config.instances_of(ServerType.AGENT)
    if not agents:
        raise ConfigError("the environment's config has no agent")
    return agents[0].name


def _as_fixture(function: Callable[[], Iterator[Any]]) -> Any:
    """Return a function as a fixture of pytest. Without pytest, as it is: the helpers that are no
    fixtures need no pytest, such as in a notebook.
    """
    try:
        import pytest
    except ModuleNotFoundError:
        return function
    return pytest.fixture(function)


@_as_fixture
def fleet() -> Iterator[Callable[..., ScriptedFleet]]:
    """Start fleets that stop at the end of the test: `fleet("my_env", answers=["4"])`.

    The model gives `answers`, one per turn; or pass `model=ScriptedModel.answering(function)`.
    """
    running: list[ScriptedFleet] = []

    def start(
        environment: str | Path,
        *,
        answers: Sequence[Answer] = (),
        model: ScriptedModel | None = None,
    ) -> ScriptedFleet:
        scripted = ScriptedFleet(environment, answers=answers, model=model)
        running.append(scripted.__enter__())
        return scripted

    yield start
    for started in running:
        started.__exit__(None, None, None)


def task_row(
    prompt: str, *, tools: Sequence[JsonDict] = (), system: str = "", **fields: Any
) -> JsonDict:
    """Return a task row with the prompt `prompt`. `fields`: the fields that its verifier reads.

    `tools`: Responses API entries, as a server's `tools()` returns them.
    """
    messages = [{"role": "user", "content": prompt}]
    if system:
        messages.insert(0, {"role": "system", "content": system})
    params: JsonDict = {"input": messages}
    if tools:
        params["tools"] = list(tools)
    return {CREATE_PARAMS: params, **fields}


def task_rows(count: int, prompt: str = "task {n}", **fields: Any) -> list[JsonDict]:
    """Return `count` task rows. `{n}` in the prompt and in text fields is replaced by the row's
    number.
    """
    return [
        {
            **task_row(prompt.replace("{n}", str(number))),
            **{
                name: value.replace("{n}", str(number)) if isinstance(value, str) else value
                for name, value in fields.items()
            },
        }
        for number in range(count)
    ]
