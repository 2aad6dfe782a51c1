"""Check rows against the request models of their servers, before the first rollout.

Servers publish these models as JSON Schema in `/openapi.json`. This check finds, with its line
number, a row that `/run`, `/seed_session` or `/verify` would otherwise reject with status 422 after
many model calls.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Self, final

from palestra.config import InstanceConfig, ServerType
from palestra.datasets import DoorKeeper, RowEndpoint, RowProblems, doors_in, rows_are_whole
from palestra.errors import CallError, ConfigError, KnownCause
from palestra.rollouts.prepare import PreparedRun
from palestra.schema import AGENT_REF, TASK_INDEX, VERIFIES_EPISODES, JsonDict, read_jsonl
from palestra.transport import CallContext, ServerClient, calling

logger = logging.getLogger(__name__)

ANSWER_WITHIN_S = 30.0
NOTICE_AFTER_S = 5.0
"""The wait for a server's answer, in seconds, after which a line names the server."""
_WITHOUT_STEPS: Final = frozenset({"simple_agent", "mcp_agent"})
"""The agents of Palestra that call neither `/reset` nor `/step`."""
_PLAIN_LOOPS: Final = frozenset({"simple_agent", "environment_agent"})
"""The agents of Palestra whose environment runs all tools."""


@dataclass(frozen=True, slots=True)
class AgentRoute:
    """The servers that receive the rows of one agent."""

    agent: str
    environments: tuple[str, ...]
    """The names of the resources servers in the agent's settings."""
    is_shipped: bool
    """Whether the agent's code is part of Palestra; see `rows_are_whole`."""
    implementation: str = ""
    """The name of the agent's folder."""
    calls_model_once: bool = False
    """Whether the agent's settings allow one model call alone, so that no tool is run."""

    @classmethod
    def of(cls, agent: InstanceConfig) -> Self:
        """Return the route of an agent in the configuration."""
        environments = agent.referenced(ServerType.RESOURCES)
        return cls(
            agent.name,
            environments,
            agent.is_shipped,
            agent.implementation,
            calls_model_once=agent.settings.get("max_steps") == 1,
        )

    @property
    def calls_no_step(self) -> bool:
        """Whether the agent certainly plays no episodes."""
        return self.is_shipped and self.implementation in _WITHOUT_STEPS

    @property
    def sends_calls_to_its_environment(self) -> bool:
        """Whether the agent certainly sends each call of a function to its only environment."""
        is_loop = self.is_shipped and self.implementation in _PLAIN_LOOPS
        return is_loop and len(self.environments) == 1 and not self.calls_model_once


async def check_rows(
    planned: PreparedRun, client: ServerClient, routes: Iterable[AgentRoute]
) -> None:
    """Raise InputDataError that lists every row that a server would reject; see `doors_behind`.

    Raises ConfigError: an agent of the rows does not play the episodes that its environment scores.
    """
    routes = tuple(routes)
    documents = _Documents(client)
    await _check_agents(planned, documents, routes)
    doors = await _doors_behind(documents, routes)
    if any(doors.values()):
        await asyncio.to_thread(_check, planned, doors)


async def _check_agents(
    planned: PreparedRun, documents: "_Documents", routes: Iterable[AgentRoute]
) -> None:
    problems = {
        route.agent: _no_episodes(route, server)
        for route in routes
        if route.calls_no_step
        for server in route.environments
        if await _scores_episodes(documents, server)
    }
    if problems:
        await asyncio.to_thread(_raise_if_used, planned, problems)


async def _scores_episodes(documents: "_Documents", server: str) -> bool:
    document = await documents.of(server)
    verify = document.get("paths", {}).get("/verify", {}).get("post", {})
    return verify.get(VERIFIES_EPISODES) is True


def _no_episodes(route: AgentRoute, server: str) -> ConfigError:
    agents = f"{route.agent}: responses_api_agents"
    return ConfigError(
        f"{server} plays episodes, which /reset and /step lead through, and {route.agent} is a "
        f"{route.implementation}, which calls neither: no rollout could be scored",
        hint=f"write gymnasium_agent in place of {route.implementation} under {agents}; it has the "
        "same settings",
        cause=KnownCause.NO_EPISODE,
    )


def _raise_if_used(planned: PreparedRun, problems: Mapping[str, ConfigError]) -> None:
    for row in planned.rows():
        problem = problems.get(row[AGENT_REF]["name"])
        if problem is not None:
            raise problem


async def doors_behind(
    client: ServerClient, routes: Iterable[AgentRoute]
) -> dict[str, list[RowEndpoint]]:
    """Return, for each agent, the endpoints that receive its rows: the agent's `/run`, and its
    environments' endpoints.

    Where an agent may add fields (`rows_are_whole` is false), only fields present in a row are
    checked. A server that publishes no schema, or that the client does not know, is skipped.
    """
    return await _doors_behind(_Documents(client), routes)


async def _doors_behind(
    documents: "_Documents", routes: Iterable[AgentRoute]
) -> dict[str, list[RowEndpoint]]:
    doors: dict[str, list[RowEndpoint]] = {}
    for route in routes:
        doors[route.agent] = await _doors_of(documents, route.agent, ("/run",))
        are_whole = rows_are_whole(is_shipped=route.is_shipped, environments=route.environments)
        for server in route.environments:
            doors[route.agent] += await _doors_of(
                documents, server, ("/seed_session", "/verify"), are_whole=are_whole
            )
    return doors


async def _doors_of(
    documents: "_Documents",
    server: str,
    paths: tuple[str, ...],
    *,
    are_whole: bool = True,
) -> list[RowEndpoint]:
    """Return the body schemas that `server` publishes for `paths`. `are_whole`: each row is
    a complete body, not a part of one.
    """
    return doors_in(await documents.of(server), server, paths, are_whole=are_whole)


@final
class _Documents:
    """What servers publish. Each is asked once: one that does not answer is waited for once."""

    def __init__(self, client: ServerClient) -> None:
        self._client = client
        self._by_server: dict[str, JsonDict] = {}

    async def of(self, server: str) -> JsonDict:
        if server not in self._by_server:
            self._by_server[server] = await published_document(self._client, server)
        return self._by_server[server]


async def published_document(
    client: ServerClient, server: str, *, notice_after_s: float = NOTICE_AFTER_S
) -> JsonDict:
    """Return what `server` publishes; {} when it publishes nothing, or the client does not know it."""
    if server not in client.targets:
        return {}
    try:
        context = CallContext(deadline=time.monotonic() + ANSWER_WITHIN_S)
        with calling(context), _notice_of(server, notice_after_s):
            reply = await client.get(server, "/openapi.json", stateless=True)
        return await reply.json() if reply.ok else {}
    except (CallError, ValueError):
        return {}  # what is wrong with the server is found, and said better, by its first call


@contextlib.contextmanager
def _notice_of(server: str, after_s: float) -> Iterator[None]:
    """Return a context that logs which server its body waits for, and until when, when the body takes
    longer than `after_s` seconds.
    """
    ends_at = time.strftime("%H:%M:%S", time.localtime(time.time() + ANSWER_WITHIN_S))
    notice = asyncio.get_running_loop().call_later(
        after_s,
        logger.warning,
        "waiting for %s, which does not answer, until %s: the rows are checked against its schema",
        server,
        ends_at,
    )
    try:
        yield
    finally:
        notice.cancel()


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
        hint="the server would reject these rows; correct them, or the request model of that server"
    )
