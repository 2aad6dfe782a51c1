"""The examination before a run. Checks that do not need each other run concurrently.

1. Check this machine and the configuration, and plan the run, which reads every row.
2. Start the servers and query their endpoints. No rollout is run.
3. Check the rows against the servers' request models, verify an empty answer in each environment,
   and send a question to each judge.
4. Forecast the cost of the whole run.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, final

from palestra.config import ServerType
from palestra.doctor.checking import LOCAL_S, Looked, Round, ended_check, in_thread
from palestra.doctor.checks import config as config_checks
from palestra.doctor.checks import data, infra, machines, model, verifier
from palestra.doctor.checks.rows import quote_row
from palestra.doctor.expecting import expect
from palestra.doctor.findings import Finding
from palestra.doctor.forecast import Forecast
from palestra.doctor.report import Report
from palestra.doctor.row_checks import ROWS_S, RowChecks
from palestra.doctor.subject import ExaminedRun, SharedFacts
from palestra.errors import Layer, PalestraError
from palestra.fleet import assembled
from palestra.rollouts import discard
from palestra.transport import ServerClient

START_S: Final = 130.0
"""Deadline for starting the servers, in seconds; a little longer than their own."""
SANDBOX_S: Final = 60.0
LEAVE_S: Final = 3.0
"""Seconds that a cancelled plan gets to finish."""
ALONE_S: Final = 20.0
"""Deadline for starting the remaining servers of a fleet that does not start, in seconds."""


async def examine(
    subject: ExaminedRun,
    *,
    round_: Round | None = None,
    on_frozen: Callable[[Report], None] | None = None,
) -> Report:
    """Run every check. No rollout is run, and no file stays behind on disk.

    `on_frozen` is called from a thread with the report so far when a server blocks the event loop
    for `VERIFY_S`. In this case `examine` never returns, and only ending the process helps.
    """
    return await _Examination(subject, round_ or Round(), on_frozen).run()


@final
class _Examination:
    def __init__(
        self, subject: ExaminedRun, round_: Round, on_frozen: Callable[[Report], None] | None
    ) -> None:
        self._subject = subject
        self._config = subject.config
        self._settings = subject.settings
        self._round = round_
        self._on_frozen = on_frozen
        self._began = time.monotonic()
        self._known = SharedFacts()
        self._planned = asyncio.Event()
        self._made = asyncio.Event()
        self._rows = RowChecks(subject, round_, self._known, frozen=self._frozen)

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
        """Return the finding with a quote of the input line that its row came from."""
        planned = self._known.planned
        task = finding.row.task if finding.row is not None else None
        if planned is None or planned.run is None or not isinstance(task, int):
            return finding
        row_place = planned.run.places.get(task)
        if row_place is None:
            return finding
        quoted = quote_row(row_place.path, row_place.line)
        return replace(finding, evidence=(*finding.evidence, quoted))

    # 1. By itself

    async def _by_itself(self) -> None:
        instances = tuple(self._config.instances.values())
        examine = self._round.look
        async with asyncio.TaskGroup() as tasks:
            for layer, name, work in (
                (Layer.INFRA, "interpreter", in_thread(lambda: infra.check_interpreter(instances))),
                (Layer.INFRA, "Ray", machines.check_ray(self._config.tree)),
                (Layer.INFRA, "Slurm", machines.check_slurm(os.environ)),
                (Layer.INFRA, "processes", in_thread(self._processes)),
                (Layer.CONFIG, "servers", self._make_servers()),
            ):
                tasks.create_task(examine(layer, name, work, within_s=LOCAL_S))
        sandboxes = config_checks.sandboxes_of(self._known.servers)
        await examine(
            Layer.INFRA, "sandbox", machines.check_sandboxes(sandboxes), within_s=SANDBOX_S
        )

    def _processes(self) -> Looked:
        return infra.check_processes(infra.Machine.here(), len(self._config.instances))

    async def _make_servers(self) -> Looked:
        try:
            unstarted = await in_thread(lambda: config_checks.make_servers(self._config))
            self._known.servers = unstarted.servers
            return unstarted.looked
        finally:
            self._made.set()

    # The plan

    async def _plan(self) -> None:
        try:
            await self._round.look(Layer.DATA, "rows", self._planned_rows(), within_s=ROWS_S)
            planned = self._known.planned
            if planned is not None:
                self._round.note(Layer.CACHE, "earlier run", planned.cache)
        finally:
            self._planned.set()
        tools = in_thread(lambda: data.check_tools(self._settings))
        await self._round.look(Layer.DATA, "tool schemas", tools, within_s=ROWS_S)

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
        examine = self._round.look
        await examine(
            Layer.CONFIG,
            "agents",
            ended_check(config_checks.check_agents(self._config)),
            within_s=1,
        )
        async with contextlib.AsyncExitStack() as stack:
            client: ServerClient | None = None

            async def start() -> Looked:
                nonlocal client
                client = await stack.enter_async_context(self._subject.open())
                return Looked(f"{len(client.targets)} servers answer")

            await examine(Layer.INFRA, "fleet", start(), within_s=START_S)
            if client is None:
                self._known.complete = False
                client = await self._without_the_broken(stack)
            if client is None:
                return
            await self._ask_endpoints(client)
            await self._planned.wait()
            await self._made.wait()
            await self._rows.look(client)

    async def _without_the_broken(self, stack: contextlib.AsyncExitStack) -> ServerClient | None:
        """Start the servers that can be created of a fleet that does not start, else only its
        models.

        Returns their client; None when neither part starts.
        """
        await self._made.wait()
        models = [instance.name for instance in self._config.instances_of(ServerType.MODEL)]
        for names in (list(self._known.servers), models):
            try:
                async with asyncio.timeout(ALONE_S):
                    assembled_fleet = await stack.enter_async_context(
                        assembled(self._config, names)
                    )
            except (PalestraError, TimeoutError):
                continue
            return assembled_fleet.client
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
            findings = (*endpoint.looked.findings, *model.check_served(endpoint))
            return replace(endpoint.looked, findings=findings)

        await self._round.look(
            Layer.MODEL, name, ask(), within_s=model.ENDPOINT_S + model.REQUEST_S + 5
        )

    def _frozen(self, environment: str) -> Callable[[float], None]:
        def frozen(still_s: float) -> None:
            self._round.note(Layer.THROUGHPUT, environment, verifier.frozen(environment, still_s))
            self._known.complete = False
            if self._on_frozen is not None:
                self._on_frozen(self._report())

        return frozen
