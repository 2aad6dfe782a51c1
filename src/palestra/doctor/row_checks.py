"""Check the rows with the running servers: request models, context, tools, an empty answer, a judge
question.

This is the third part of an examination: the fleet runs, its endpoints were queried, and the plan
is made.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

from palestra.config import ServerType
from palestra.conformance import LoopGuard
from palestra.doctor.checking import LOCAL_S, Looked, Round, in_thread
from palestra.doctor.checks import data, infra, model, verifier
from palestra.doctor.findings import has_errors
from palestra.doctor.subject import UNBOUNDED, ExaminedRun, SharedFacts
from palestra.doctor.survey import AgentRows
from palestra.errors import Layer
from palestra.rollouts import AgentRoute
from palestra.server import ResourcesServer
from palestra.transport import ServerClient

ROWS_S: Final = 600.0
"""Deadline for checking all rows, in seconds; as long as `collect` takes for them."""
VERIFY_S: Final = 20.0
"""Longest time that a verifier may block the event loop before the examination ends, in seconds."""

Frozen = Callable[[str], Callable[[float], None]]
"""Takes an environment's name. Returns the function to call when its verifier blocks the event
loop.

A thread calls the returned function after `VERIFY_S`, with the seconds of blocking so far.
"""


@final
class RowChecks:
    """The checks of the rows that need running servers."""

    def __init__(
        self, subject: ExaminedRun, round_: Round, facts: SharedFacts, *, frozen: Frozen
    ) -> None:
        self._subject = subject
        self._config = subject.config
        self._settings = subject.settings
        self._round = round_
        self._known = facts
        self._frozen = frozen

    async def look(self, client: ServerClient) -> None:
        """Run all checks of the rows, with `client` for the running servers."""
        self._known.in_flight = self._in_flight(client)
        await self._look_here(client)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._request_models(client))
            for rows in self._known.rows:
                tasks.create_task(self._fits(client, rows))
        for environment, brought in self._known.environments(self._config).items():
            await self._verify(client, environment, brought)

    def _in_flight(self, client: ServerClient) -> int:
        remaining = self._known.remaining or UNBOUNDED
        return min(remaining, self._settings.bound or self._subject.most_in_flight(client))

    async def _look_here(self, client: ServerClient) -> None:
        examine, remaining = self._round.look, self._known.remaining
        if remaining:
            check = partial(self._subject.descriptors, client, remaining)
            work = in_thread(lambda: infra.check_descriptors(check))
            await examine(Layer.INFRA, "open files", work, within_s=LOCAL_S)
        in_flight = self._known.in_flight
        memory = in_thread(lambda: infra.check_memory(infra.Machine.here(), in_flight))
        await examine(Layer.INFRA, "memory", memory, within_s=LOCAL_S)

    async def _request_models(self, client: ServerClient) -> None:
        agents = self._config.instances_of(ServerType.AGENT)
        routes = [AgentRoute.of(agent) for agent in agents]
        planned = self._known.planned
        run = planned.run if planned is not None else None
        work = (
            data.check_request_models(run, client, routes)
            if run is not None
            else data.check_good_rows(self._settings, client, routes)
        )
        await self._round.look(Layer.DATA, "request models", work, within_s=ROWS_S)
        if run is not None:
            work = data.check_offered_tools(run, client, routes)
            await self._round.look(Layer.DATA, "offered tools", work, within_s=ROWS_S)

    async def _fits(self, client: ServerClient, rows: AgentRows) -> None:
        endpoint = self._known.endpoint_of(self._config.instance(rows.agent))
        if endpoint is None or not endpoint.answers:
            return

        async def context() -> Looked:
            looked, pace = await model.check_context(client, endpoint, rows)
            if pace is not None:
                self._known.paces[rows.agent] = pace
            return looked

        limit_s = model.REQUEST_S + 5
        examine = self._round.look
        await examine(Layer.MODEL, f"context for {rows.agent}", context(), within_s=limit_s)
        tools = model.check_tool_calls(client, endpoint, rows)
        await examine(Layer.MODEL, f"tools of {rows.agent}", tools, within_s=limit_s)

    async def _verify(
        self, client: ServerClient, environment: str, brought: Sequence[AgentRows]
    ) -> None:
        if environment not in client.targets:
            return
        server = self._known.servers.get(environment)
        wrong = (
            server.declared_reward_rules().wrong if isinstance(server, ResourcesServer) else None
        )
        instance = self._config.instance(environment)
        judges = self._known.judges(instance)
        # What a judge is asked costs money: then one row of each agent will do.
        tried = [row for rows in brought for row in (rows.samples[:1] if judges else rows.samples)]

        async def verify() -> Looked:
            async with LoopGuard(self._frozen(environment), frozen_s=VERIFY_S) as guard:
                return await verifier.check_empty_answers(
                    client,
                    environment,
                    tried,
                    guard,
                    wrong=wrong,
                    broken=self._known.broken_models(instance),
                )

        examine = self._round.look
        limit_s = verifier.SEVERAL_S + verifier.ONE_ANSWER_S + 5
        looked = await examine(Layer.VERIFIER, environment, verify(), within_s=limit_s)
        if judges and not has_errors(looked.findings):
            judge = verifier.check_judge(client, environment, server, brought[0].first)
            await examine(
                Layer.VERIFIER,
                f"judge of {environment}",
                judge,
                within_s=verifier.ONE_ANSWER_S + 5,
            )
