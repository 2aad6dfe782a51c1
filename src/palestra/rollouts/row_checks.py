"""Rows against the request models of the servers they will meet, before the first rollout.

Servers publish those models as JSON Schema in their `/openapi.json`. A row that an agent's `/run`
or its environment's `/seed_session` or `/verify` would reject with a 422 after a night of model
calls is found here, with its line.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from palestra.config import InstanceConfig, ServerType
from palestra.datasets import DoorKeeper, RowEndpoint, RowProblems, doors_in, rows_are_whole
from palestra.errors import CallError
from palestra.rollouts.prepare import PreparedRun
from palestra.schema import AGENT_REF, TASK_INDEX, read_jsonl
from palestra.transport import CallContext, ServerClient, calling

ANSWER_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class AgentRoute:
    """The servers that a row of one agent reaches."""

    agent: str
    environments: tuple[str, ...]
    """The resources servers that the agent's settings name."""
    is_shipped: bool
    """Whether the agent's code came with Palestra; see `rows_are_whole`."""

    @classmethod
    def of(cls, agent: InstanceConfig) -> Self:
        """The route through an agent of a configuration."""
        return cls(agent.name, agent.referenced(ServerType.RESOURCES), agent.is_shipped)


async def check_rows(
    planned: PreparedRun, client: ServerClient, routes: Iterable[AgentRoute]
) -> None:
    """Raise InputDataError naming every row that a server would reject; see `doors_behind`."""
    doors = await doors_behind(client, routes)
    if any(doors.values()):
        await asyncio.to_thread(_check, planned, doors)


async def doors_behind(
    client: ServerClient, routes: Iterable[AgentRoute]
) -> dict[str, list[RowEndpoint]]:
    """What a row of each agent has to pass: its agent's `/run`, and its environments' endpoints.

    Where rows are not all that an environment is given (`rows_are_whole`), only what a row has is
    checked. A server that publishes nothing, or that the client does not know, is not checked
    against.
    """
    doors: dict[str, list[RowEndpoint]] = {}
    for route in routes:
        doors[route.agent] = await doors_of(client, route.agent, ("/run",))
        are_whole = rows_are_whole(is_shipped=route.is_shipped, environments=route.environments)
        for server in route.environments:
            doors[route.agent] += await doors_of(
                client, server, ("/seed_session", "/verify"), are_whole=are_whole
            )
    return doors


async def doors_of(
    client: ServerClient,
    server: str,
    paths: tuple[str, ...],
    *,
    are_whole: bool = True,
) -> list[RowEndpoint]:
    """What `server` publishes about the bodies of `paths`; `are_whole`: rows are all of a body."""
    if server not in client.targets:
        return []
    try:
        with calling(CallContext(deadline=time.monotonic() + ANSWER_WITHIN_S)):
            reply = await client.get(server, "/openapi.json", stateless=True)
        document = await reply.json() if reply.ok else {}
    except (CallError, ValueError):
        return []  # what is wrong with the server is found, and said better, by its first call
    return doors_in(document, server, paths, are_whole=are_whole)


def _check(planned: PreparedRun, doors: Mapping[str, list[RowEndpoint]]) -> None:
    keepers = {agent: DoorKeeper(found_doors) for agent, found_doors in doors.items()}
    problems = RowProblems()
    seen_tasks: set[int] = set()
    for line in read_jsonl(planned.inputs):
        task = line.row[TASK_INDEX]
        if task in seen_tasks:
            continue
        seen_tasks.add(task)
        keeper = keepers.get(line.row[AGENT_REF]["name"])
        for problem in keeper.problems(line.row) if keeper else ():
            problems.add(*planned.places[task], problem)
    problems.raise_if_any(
        hint="these rows would be rejected when they get there; mend them, or the request model "
        "of that server"
    )
