"""Small collections in a folder, against an agent that does as it is told."""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from palestra.rollouts import Collected, PreparedRun, prepare, run
from palestra.schema import RolloutKey, RunPaths, VerifyResponse, key_of
from palestra.settings import CollectSettings, InputFile
from palestra.transport import ASGIApp, HttpClient, ServerClient, Target, current_call

AGENT = "agent"
SEMANTICS = {"servers": {"policy_model": {"settings": {"model": "tiny"}}}}

Script = Callable[[RolloutKey, int], Any]
"""What becomes of one attempt: a reward or a whole verify response; it may raise or be awaited."""


def task(number: int, **fields: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": f"question {number}"}, "number": number} | fields


def write_rows(path: Path, rows: Iterable[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def settings(folder: Path, **changes: Any) -> CollectSettings:
    given: dict[str, Any] = {
        "inputs": (InputFile(folder / "tasks.jsonl"),),
        "output_jsonl_fpath": folder / "run.jsonl",
        "agent_name": AGENT,
        "disable_aggregation": True,
        "attempt_pause_s": 0.0,
    }
    if "input_jsonl_fpath" in changes:
        changes = {"inputs": (InputFile(changes.pop("input_jsonl_fpath")),)} | changes
    return CollectSettings(**given | changes)


def paths(folder: Path) -> RunPaths:
    return RunPaths(folder / "run.jsonl")


def prepared(
    folder: Path, *, semantics: Mapping[str, Any] = SEMANTICS, **changes: Any
) -> PreparedRun:
    made = settings(folder, **changes)
    return prepare(made, agents={AGENT, "other_agent"}, semantics=semantics, version="1")


SAID = {"type": "message", "role": "assistant", "content": "done"}


def answer(reward: Any, **response: Any) -> dict[str, Any]:
    """A verify response as JSON; `response` are fields of the trajectory."""
    made = {"id": "r", "created_at": 0, "model": "tiny", "output": [SAID], **response}
    return {"responses_create_params": {"input": "q"}, "response": made, "reward": reward}


def unchecked(reward: Any) -> VerifyResponse:
    """A verify response that an environment made without validation."""
    given = VerifyResponse.model_validate(answer(0.0))
    return given.model_copy(update={"reward": reward})


class ScriptedAgent:
    """An agent in this process. Keeps the attempts that began, and how many ran at once."""

    is_tool = False

    def __init__(self, script: Script) -> None:
        self._script = script
        self.begun: list[tuple[RolloutKey, int]] = []
        self.running = 0
        self.most_running = 0
        self._beginning = asyncio.Condition()

    def typed_endpoint(self, path: str, /) -> "ScriptedAgent":
        assert path == "/run"
        return self

    def asgi_app(self) -> ASGIApp:
        raise NotImplementedError

    async def invoke(self, body: Any, /, *, session_id: str) -> Any:
        row = current_call().row
        key, attempt = key_of(body), row.attempt if row else 0
        self.begun.append((key, attempt))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        async with self._beginning:
            self._beginning.notify_all()
        try:
            ending = self._script(key, attempt)
            if asyncio.iscoroutine(ending):
                ending = await ending
        finally:
            self.running -= 1
        return ending if isinstance(ending, VerifyResponse | dict) else answer(ending)

    async def until_begun(self, count: int) -> None:
        """Wait until so many attempts have begun."""
        async with self._beginning:
            await self._beginning.wait_for(lambda: len(self.begun) >= count)

    @property
    def client(self) -> ServerClient:
        targets = {
            name: Target(name, "responses_api_agents", local=self)
            for name in (AGENT, "other_agent")
        }
        return ServerClient(targets, HttpClient())


def always(ending: Any) -> ScriptedAgent:
    """An agent whose every attempt ends in this reward, or raises this error's like."""

    def script(_key: RolloutKey, _attempt: int) -> Any:
        if isinstance(ending, BaseException):
            raise type(ending)(*ending.args)
        return ending

    return ScriptedAgent(script)


def failing_first(count: int, error: Callable[[], BaseException]) -> ScriptedAgent:
    """An agent whose first `count` attempts at each rollout fail."""

    def script(_key: RolloutKey, attempt: int) -> float:
        if attempt <= count:
            raise error()
        return 1.0

    return ScriptedAgent(script)


def collect(folder: Path, agent: ScriptedAgent, **changes: Any) -> Collected:
    """Prepare and run, as the command does."""
    ready = prepared(folder, **changes)
    return asyncio.run(run(ready, settings(folder, **changes), agent.client))
