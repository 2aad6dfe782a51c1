"""A trainer's world in one process: an agent that does as it is told, and rows to ask for."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from starlette.applications import Starlette

from palestra.errors import PalestraError
from palestra.fleet import ChildExit, RunningInstance
from palestra.schema import VerifyResponse
from palestra.training import Attempts, ClientSettings, FailureClass, Key, RolloutRequest
from palestra.training.client import RolloutClient
from palestra.transport import ASGIApp, HttpClient, ServerClient, Target, current_call

AGENT = "agent"
QUICK = Attempts(first_pause_s=0.0)
ONCE = Attempts(most={}, first_pause_s=0.0)

Script = Callable[[Key, int], Any]
"""What becomes of one attempt: a reward, a verify response or JSON; it may raise or be awaited."""


def request(task: int | str = 0, rollout: int = 0, **fields: Any) -> RolloutRequest:
    row = {"responses_create_params": {"input": f"question {task}"}}
    return RolloutRequest(row=row, task_id=task, rollout_index=rollout, **fields)


def requests(tasks: int, rollouts: int = 1, **fields: Any) -> list[RolloutRequest]:
    return [request(task, index, **fields) for task in range(tasks) for index in range(rollouts)]


def said(
    prompt: Sequence[Any] | None = (1, 2),
    generated: Sequence[Any] = (3,),
    logprobs: Sequence[Any] | None = None,
) -> dict[str, Any]:
    """A turn that ends in a text, with its ids."""
    item: dict[str, Any] = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "hello", "annotations": []}],
    }
    if prompt is not None:
        item["prompt_token_ids"] = list(prompt)
        item["generation_token_ids"] = list(generated)
        item["generation_log_probs"] = list(
            [-0.5] * len(generated) if logprobs is None else logprobs
        )
    return item


def heard(text: str = "go on") -> dict[str, Any]:
    """What the environment says between two turns."""
    return {"type": "message", "role": "user", "content": text}


def answer(reward: Any = 1.0, *output: dict[str, Any], **response: Any) -> dict[str, Any]:
    """A verify response."""
    made = {"id": "r", "created_at": 0, "model": "m", "output": list(output) or [said()]}
    return {
        "responses_create_params": {"input": "q"},
        "response": {**made, **response},
        "reward": reward,
    }


class ToldAgent:
    """Its `/run` is a function of the rollout and the attempt."""

    is_tool = False

    def __init__(self, script: Script) -> None:
        self._script = script
        self.begun: list[tuple[Key, int]] = []
        self.running = 0
        self.most_running = 0
        self.rows: list[Any] = []
        self._changed = asyncio.Condition()

    def typed_endpoint(self, path: str, /) -> "ToldAgent":
        assert path == "/run"
        return self

    def asgi_app(self) -> ASGIApp:
        return Starlette()  # publishes nothing

    async def invoke(self, body: Any, /, *, session_id: str) -> Any:
        del session_id
        row = current_call().row
        assert row is not None
        key = Key(body["_ng_task_index"], body["_ng_rollout_index"])
        self.rows.append(body)
        self.begun.append((key, row.attempt))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        async with self._changed:
            self._changed.notify_all()
        try:
            ending = self._script(key, row.attempt)
            if asyncio.iscoroutine(ending):
                ending = await ending
        finally:
            self.running -= 1
        made = ending if isinstance(ending, dict) else answer(ending)
        return VerifyResponse.model_validate(made) if made is not ending else made

    async def until_begun(self, count: int) -> None:
        async with asyncio.timeout(20), self._changed:
            await self._changed.wait_for(lambda: len(self.begun) >= count)


class ToldServers:
    """A fleet of one agent; `dies` is how it ends."""

    def __init__(self, agent: ToldAgent, *others: Target) -> None:
        targets = {AGENT: Target(AGENT, "responses_api_agents", local=agent)}
        targets |= {target.name: target for target in others}
        self.client = ServerClient(targets, HttpClient())
        self.instances: dict[str, RunningInstance] = {}
        self.ending: ChildExit | None = None
        self._death: asyncio.Future[PalestraError] = asyncio.get_running_loop().create_future()

    def dies(self, ending: ChildExit) -> None:
        self.ending = ending
        self._death.set_result(ending.as_error())

    async def watch(self) -> None:
        raise await self._death


@contextlib.asynccontextmanager
async def trainer(
    script: Script, *others: Target, memory: Any = None, **settings: Any
) -> AsyncIterator[tuple[RolloutClient, ToldAgent, ToldServers]]:
    """A client of an agent that does as `script` says."""
    agent = ToldAgent(script)
    servers = ToldServers(agent, *others)
    given: dict[str, Any] = {"attempts": QUICK, "memory_reserve": 0.0, "min_fraction": 0.0}
    async with RolloutClient(
        contextlib.nullcontext(servers), ClientSettings(**given | settings), memory=memory
    ) as client:
        yield client, agent, servers


INFRA = FailureClass.INFRA_ERROR
