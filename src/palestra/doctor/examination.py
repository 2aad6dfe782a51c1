"""The examination before a run: every check, side by side where they do not need each other.

1. What this machine and the configuration say by themselves; and the plan of the run, which looks
   at every row.
2. The servers start, and their endpoints are asked. Nothing is rolled out.
3. The rows meet the servers' request models, an empty answer each verifier, a question each judge.
4. What all of it would take.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, final

from palestra.config import PACKAGE_ROOT, ServerType
from palestra.conformance import LoopGuard
from palestra.doctor.checking import LOCAL_S, Looked, Round, done, in_thread
from palestra.doctor.checks import config as config_checks
from palestra.doctor.checks import data, infra, machines, model, verifier
from palestra.doctor.checks.rows import quote_row
from palestra.doctor.expecting import expect
from palestra.doctor.findings import Finding
from palestra.doctor.forecast import Forecast
from palestra.doctor.report import Report
from palestra.doctor.subject import UNBOUNDED, Known, Subject, environments_of
from palestra.doctor.survey import AgentRows
from palestra.errors import Layer, PalestraError
from palestra.rollouts import discard
from palestra.serving import ResourcesServer, assembled
from palestra.transport import ServerClient

PLAN_S: Final = 600.0
"""For the rows: as long as `collect` itself would take for them."""
START_S: Final = 130.0
"""For the servers: a little more than they have themselves."""
SANDBOX_S: Final = 60.0
LEAVE_S: Final = 3.0
"""How long a plan that nobody waits for any more has to come to its end."""
ALONE_S: Final = 20.0
"""For the rest of a fleet that does not start."""
VERIFY_S: Final = 20.0
"""For how long a verifier may hold the event loop before the examination is given up."""


async def examine(
    subject: Subject,
    *,
    round_: Round | None = None,
    on_frozen: Callable[[Report], None] | None = None,
) -> Report:
    """Make every check; nothing is rolled out, and nothing stays behind on disk.

    `on_frozen` is called from a thread with what is known so far when a server holds the event
    loop for `VERIFY_S`: then this never returns, and only ending the process helps.
    """
    return await _Examination(subject, round_ or Round(), on_frozen).run()


@final
class _Examination:
    def __init__(
        self, subject: Subject, round_: Round, on_frozen: Callable[[Report], None] | None
    ) -> None:
        self._subject = subject
        self._config = subject.config
        self._settings = subject.settings
        self._round = round_
        self._on_frozen = on_frozen
        self._began = time.monotonic()
        self._known = Known()
        self._planned = asyncio.Event()
        self._made = asyncio.Event()

    async def run(self) -> Report:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._by_itself())
                tasks.create_task(self._plan())
                tasks.create_task(self._with_servers())
            expected = await expect(self._subject, self._round, self._known)
        finally:
            planned = self._known.planned
            if planned is not None and planned.run is not None:
                await asyncio.to_thread(discard, planned.run)
        return self._report(expected)

    def _report(self, expected: Forecast | None = None) -> Report:
        return Report(
            tuple(self._round.runs),
            tuple(self._placed(finding) for finding in self._round.findings()),
            expected,
            time.monotonic() - self._began,
            self._known.complete,
        )

    def _placed(self, finding: Finding) -> Finding:
        """With the line of the input at which the row of a finding stands."""
        planned = self._known.planned
        task = finding.row.task if finding.row is not None else None
        if planned is None or planned.run is None or not isinstance(task, int):
            return finding
        place = planned.run.places.get(task)
        if place is None:
            return finding
        shown = quote_row(place.path, place.line)
        return replace(finding, evidence=(*finding.evidence, shown))

    # 1. By itself

    async def _by_itself(self) -> None:
        instances = tuple(self._config.instances.values())
        look = self._round.look
        async with asyncio.TaskGroup() as tasks:
            for layer, name, work in (
                (Layer.INFRA, "interpreter", in_thread(lambda: infra.check_interpreter(instances))),
                (Layer.INFRA, "Ray", machines.check_ray(self._config.tree)),
                (Layer.INFRA, "Slurm", machines.check_slurm(os.environ)),
                (Layer.INFRA, "processes", in_thread(self._processes)),
                (Layer.CONFIG, "servers", self._make_servers()),
            ):
                tasks.create_task(look(layer, name, work, within_s=LOCAL_S))
        wanted = config_checks.sandboxes_of(self._known.servers)
        await look(Layer.INFRA, "sandbox", machines.check_sandboxes(wanted), within_s=SANDBOX_S)

    def _processes(self) -> Looked:
        return infra.check_processes(infra.Machine.here(), len(self._config.instances))

    async def _make_servers(self) -> Looked:
        try:
            made = await in_thread(lambda: config_checks.make_servers(self._config))
            self._known.servers = made.servers
            return made.looked
        finally:
            self._made.set()

    # The plan

    async def _plan(self) -> None:
        try:
            await self._round.look(Layer.DATA, "rows", self._planned_rows(), within_s=PLAN_S)
            planned = self._known.planned
            if planned is not None:
                self._round.note(Layer.CACHE, "earlier run", planned.cache)
        finally:
            self._planned.set()
        tools = in_thread(lambda: data.check_tools(self._settings))
        await self._round.look(Layer.DATA, "tool schemas", tools, within_s=PLAN_S)

    async def _planned_rows(self) -> Looked:
        agents = {agent.name for agent in self._config.instances_of(ServerType.AGENT)}
        subject = self._subject
        plan = partial(
            data.plan_run,
            self._settings,
            agents=agents,
            semantics=subject.semantics,
            version=subject.version,
        )
        planning = asyncio.ensure_future(in_thread(plan))
        try:
            planned = await asyncio.shield(planning)
        except asyncio.CancelledError:
            # The thread goes on; what it writes meanwhile must not stay.
            await asyncio.wait({planning}, timeout=LEAVE_S)
            if planning.done() and not planning.cancelled() and planning.exception() is None:
                self._known.planned = planning.result()
            raise
        self._known.planned = planned
        return planned.rows

    # 2. With servers

    async def _with_servers(self) -> None:
        look = self._round.look
        await look(
            Layer.CONFIG, "agents", done(config_checks.check_agents(self._config)), within_s=1
        )
        async with contextlib.AsyncExitStack() as stack:
            client: ServerClient | None = None

            async def start() -> Looked:
                nonlocal client
                client = await stack.enter_async_context(self._subject.open())
                return Looked(f"{len(client.targets)} servers answer")

            await look(Layer.INFRA, "fleet", start(), within_s=START_S)
            if client is None:
                self._known.complete = False
                client = await self._without_the_broken(stack)
            if client is None:
                return
            await self._ask_endpoints(client)
            await self._planned.wait()
            await self._made.wait()
            await self._with_rows(client)

    async def _without_the_broken(self, stack: contextlib.AsyncExitStack) -> ServerClient | None:
        """The servers that can be made, of a fleet that does not start; else the models alone."""
        await self._made.wait()
        models = [instance.name for instance in self._config.instances_of(ServerType.MODEL)]
        for names in (list(self._known.servers), models):
            try:
                async with asyncio.timeout(ALONE_S):
                    made = await stack.enter_async_context(assembled(self._config, names))
            except (PalestraError, TimeoutError):
                continue
            return made.client
        return None

    async def _ask_endpoints(self, client: ServerClient) -> None:
        async with asyncio.TaskGroup() as tasks:
            for name, target in client.targets.items():
                if target.server_type == ServerType.MODEL:
                    tasks.create_task(self._ask_endpoint(client, name))

    async def _ask_endpoint(self, client: ServerClient, name: str) -> None:
        async def ask() -> Looked:
            endpoint = await model.check_endpoint(client, name)
            self._known.endpoints[name] = endpoint
            found = (*endpoint.looked.findings, *model.check_served(endpoint))
            return replace(endpoint.looked, findings=found)

        await self._round.look(
            Layer.MODEL, name, ask(), within_s=model.ENDPOINT_S + model.REQUEST_S + 5
        )

    # 3. With rows

    async def _with_rows(self, client: ServerClient) -> None:
        self._known.in_flight = self._in_flight(client)
        await self._look_here(client)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._request_models(client))
            for rows in self._known.rows:
                tasks.create_task(self._fits(client, rows))
        for environment, rows in self._known.environments(self._config):
            await self._verify(client, environment, rows)

    def _in_flight(self, client: ServerClient) -> int:
        remaining = self._known.remaining or UNBOUNDED
        return min(remaining, self._settings.bound or self._subject.most_in_flight(client))

    async def _look_here(self, client: ServerClient) -> None:
        look, remaining = self._round.look, self._known.remaining
        if remaining:
            check = partial(self._subject.descriptors, client, remaining)
            work = in_thread(lambda: infra.check_descriptors(check))
            await look(Layer.INFRA, "open files", work, within_s=LOCAL_S)
        in_flight = self._known.in_flight
        memory = in_thread(lambda: infra.check_memory(infra.Machine.here(), in_flight))
        await look(Layer.INFRA, "memory", memory, within_s=LOCAL_S)

    async def _request_models(self, client: ServerClient) -> None:
        agents = self._config.instances_of(ServerType.AGENT)
        environments = {
            agent.name: environments_of(agent)
            for agent in agents
            if {agent.name, *environments_of(agent)} <= client.targets.keys()
        }
        forwarding = {a.name for a in agents if a.folder and a.folder.is_relative_to(PACKAGE_ROOT)}
        planned = self._known.planned
        run = planned.run if planned is not None else None
        work = (
            data.check_request_models(run, client, environments, forwarding=forwarding)
            if run is not None
            else data.check_good_rows(self._settings, client, environments, forwarding=forwarding)
        )
        await self._round.look(Layer.DATA, "request models", work, within_s=PLAN_S)

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
        look = self._round.look
        await look(Layer.MODEL, f"context for {rows.agent}", context(), within_s=limit_s)
        tools = model.check_tool_calls(client, endpoint, rows)
        await look(Layer.MODEL, f"tools of {rows.agent}", tools, within_s=limit_s)

    async def _verify(self, client: ServerClient, environment: str, rows: AgentRows) -> None:
        if environment not in client.targets:
            return
        server = self._known.servers.get(environment)
        wrong = server.reward_rules.wrong if isinstance(server, ResourcesServer) else None

        async def verify() -> Looked:
            async with LoopGuard(self._frozen(environment), frozen_s=VERIFY_S) as guard:
                return await verifier.check_empty_answer(
                    client, environment, rows.first, guard, wrong=wrong
                )

        look = self._round.look
        await look(Layer.VERIFIER, environment, verify(), within_s=verifier.ONE_ANSWER_S + 5)
        if self._known.judges(self._config.instance(environment)):
            judge = verifier.check_judge(client, environment, server, rows.first)
            await look(
                Layer.VERIFIER,
                f"judge of {environment}",
                judge,
                within_s=verifier.ONE_ANSWER_S + 5,
            )

    def _frozen(self, environment: str) -> Callable[[float], None]:
        def frozen(still_s: float) -> None:
            self._round.note(Layer.THROUGHPUT, environment, verifier.frozen(environment, still_s))
            self._known.complete = False
            if self._on_frozen is not None:
                self._on_frozen(self._report())

        return frozen
