"""Stored rollouts in a folder, and toy environments in this process to verify them again."""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from palestra.errors import JudgeFailure
from palestra.rollouts import (
    Origin,
    Reverification,
    ReverifyLimits,
    ReverifyPaths,
    Routes,
    StoredRollouts,
    TaskRows,
    Verifier,
    begin_reverification,
)
from palestra.schema import (
    JudgeReplay,
    ResponseCreateParams,
    SeedSessionRequest,
    VerifyRequest,
    VerifyResponse,
)
from palestra.server import ResourcesServer, ResourcesServerConfig, ReverifyMode, Session, tool
from palestra.transport import HttpClient, ServerClient, Target

ENVIRONMENT = "toy"


def said(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item = {"type": "message", "id": "m", "role": "assistant", "content": content}
    return {"id": "r", "created_at": 0, "model": "tiny", "output": [item]}


def stored(number: int, text: str = "yes", **fields: Any) -> dict[str, Any]:
    """A row of a run: task `number`, one rollout, reward 0 unless told."""
    return {
        "responses_create_params": {"input": f"question {number}"},
        "response": said(text),
        "reward": 0.0,
        "_ng_task_index": number,
        "_ng_rollout_index": 0,
        "agent_ref": {"type": "responses_api_agents", "name": "agent"},
        **fields,
    }


def without(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def write(path: Path, rows: Iterable[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class Toy(ResourcesServer):
    """Rewards a "yes"; raises for "raise"; waits for ever for "hang"."""

    config: ResourcesServerConfig

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        text = body.response.final_text
        if text == "raise":
            raise ValueError("the verifier's own bug")
        if text == "hang":
            await asyncio.Event().wait()
        return self.reply(body, float(text == "yes"), seen=text)


class WantsAnswer(VerifyRequest):
    answer: str


class Answering(ResourcesServer):
    """Needs a field of the task."""

    async def verify(self, body: WantsAnswer) -> VerifyResponse:
        return self.reply(body, float(body.response.final_text == body.answer))


class Seed(SeedSessionRequest):
    secret: str


class Bound(ResourcesServer):
    """Keeps in the session what it verifies with."""

    async def seed_session(self, body: Seed, session: Session) -> SeedSessionRequest:
        session.state["secret"] = body.secret
        return SeedSessionRequest()

    async def verify(self, body: VerifyRequest, session: Session) -> VerifyResponse:
        return self.reply(body, float(session.state["secret"] == body.response.final_text))


class Unsupporting(Bound):
    reverify_mode: ClassVar[ReverifyMode] = "unsupported"


class Start(SeedSessionRequest):
    start: int


class Replaying(ResourcesServer):
    """A sum that only the session knows."""

    reverify_mode: ClassVar[ReverifyMode] = "replay_tools"

    async def seed_session(self, body: Start, session: Session) -> SeedSessionRequest:
        session.state["sum"] = body.start
        return SeedSessionRequest()

    @tool
    async def add(self, amount: int, session: Session) -> int:
        session.state["sum"] += amount
        return 0

    @tool
    async def note(self, amount: int) -> dict[str, Any]:
        return {"of": {"a": [1], "b": amount}}

    async def verify(self, body: VerifyRequest, session: Session) -> VerifyResponse:
        return self.reply(body, float(session.state["sum"]))


class Judged(ResourcesServer):
    """Asks a judge, of whom there is none here, unless the row holds its answer."""

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        params = ResponseCreateParams(input=f"Is it right? {body.response.final_text}")
        answer = JudgeReplay.of(body).answer(params)
        if answer is None:
            raise JudgeFailure("the judge has not been asked this, and there is no judge")
        return self.reply(body, float(answer.final_text == "RIGHT"))


def judged(number: int, text: str, verdict: str | None) -> dict[str, Any]:
    """A stored row of `Judged`; without a verdict the judge was never asked."""
    asked = {"input": [{"role": "user", "content": f"Is it right? {text}", "type": "message"}]}
    exchange = {"responses_create_params": asked, "response": said(verdict or "")}
    return stored(number, text, judge_evaluations=[exchange] if verdict else [])


def client_of(cls: type[ResourcesServer] = Toy, name: str = ENVIRONMENT) -> ServerClient:
    targets: dict[str, Target] = {}
    client = ServerClient(targets, HttpClient())
    server = cls(config=ResourcesServerConfig(name=name), server_client=client)
    targets[name] = Target(name, "resources_servers", local=server)
    return client


class Folder:
    """A folder with `run.jsonl`, verified again into `new.jsonl`."""

    def __init__(self, path: Path, rows: Iterable[Any]) -> None:
        self.rollouts = write(path / "run.jsonl", rows)
        self.paths = ReverifyPaths(path / "new.jsonl")

    def stored(
        self,
        routes: Routes | None = None,
        tasks: TaskRows | None = None,
        limit: int | None = None,
        only: Sequence[str] = (),
    ) -> StoredRollouts:
        chosen = routes or Routes({}, ENVIRONMENT)
        return StoredRollouts(self.rollouts, chosen, limit=limit, only=only, tasks=tasks)

    def reverify(
        self,
        cls: type[ResourcesServer] = Toy,
        *,
        tasks: TaskRows | None = None,
        resume: bool = False,
        verifiers: Mapping[str, Any] | None = None,
        concurrency: int = 4,
        **how: Any,
    ) -> dict[str, Any]:
        """The result."""
        stored_rows = self.stored(tasks=tasks)
        checked = stored_rows.check()
        origin = Origin(checked.digest, checked.rows, None, verifiers or {}, "replayed")
        with begin_reverification(self.paths, origin, resume=resume, version="1") as begun:
            if begun.finished is not None:
                return dict(begun.finished)
            work = Reverification(
                lambda: stored_rows.rows(checked.rows),
                origin,
                begun.partial,
                "1",
                ReverifyLimits(concurrency),
            )
            return asyncio.run(work.run(Verifier(client_of(cls), **how)))

    @property
    def new(self) -> list[dict[str, Any]]:
        return read(self.paths.output)

    @property
    def failures(self) -> list[dict[str, Any]]:
        return read(self.paths.failures)
