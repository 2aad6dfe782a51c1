"""Run the checks in order: slow and dangerous ones come last."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from palestra.config import ResolvedConfig
from palestra.conformance.cases import Case, ExaminationLimits
from palestra.conformance.examination import Examination, GivenUp, Now
from palestra.conformance.judging import Script, ScriptedJudge
from palestra.conformance.lag import LoopGuard
from palestra.conformance.playing import Player, door_of
from palestra.conformance.report import CheckResult, Status, VerifierFault, VerifierReport
from palestra.conformance.steps import STEPS
from palestra.fleet import assembled, server_client
from palestra.schema import JsonObject
from palestra.server import ResourcesServer, RewardRules, Server


@dataclass(frozen=True, slots=True)
class ExaminedEnvironment:
    """An environment to examine. `servers`: its own server and the servers it needs, without
    models.
    """

    name: str
    config: ResolvedConfig
    servers: Sequence[str]
    judges: Sequence[str] = ()
    rows: Sequence[JsonObject] = ()
    cases: Sequence[Case] = ()
    ready: Mapping[str, Server] = field(default_factory=dict)
    """Servers that exist as objects already, by name. They need no configuration."""
    recorded: Sequence[Case] = ()
    """The recorded rollouts of the example rows, with their rewards."""
    declared_range: tuple[float, float] | None = None
    """The lowest and the highest reward of the environment's manifest; None without a manifest."""


async def check_environment(
    subject: ExaminedEnvironment,
    limits: ExaminationLimits | None = None,
    *,
    on_frozen: Callable[[VerifierReport], None] | None = None,
    on_probe: Callable[[VerifierReport], None] | None = None,
    on_begin: Callable[[Now], object] | None = None,
    steps: Collection[str] = tuple(STEPS),
) -> VerifierReport:
    """Examine an environment in this process. `steps`: the names of the checks to run.

    `on_frozen` is called from a thread, with the report so far, when the verifier blocks the event
    loop for `frozen_s`. This function never returns then, and the process must be ended. `on_probe`
    is called before each answer is verified. It gets the report to show in case the verifier never
    returns and blocks even that thread. `on_begin` gets what is being verified, which changes as the
    examination proceeds. Raises ConfigError: the environment cannot be started here.
    """
    limits = limits or ExaminationLimits()
    results: list[CheckResult] = []
    script = Script()
    now = Now()

    if on_begin is not None:
        on_begin(now)

    def so_far(problem: str) -> VerifierReport:
        finding = VerifierFault(now.row, now.kind, problem, now.answer)
        last = CheckResult(now.check, Status.FAILED, now.probes, findings=(finding,))
        return VerifierReport(subject.name, (*results, last), complete=False)

    def frozen(still_s: float) -> None:
        if on_frozen is not None:
            on_frozen(so_far(f"has been blocking the event loop for {still_s:.0f} s"))

    if on_probe is not None:
        now.on_probe = lambda: on_probe(so_far("did not return"))

    judges = {
        name: ScriptedJudge.of(name, script, server_client({}, {})) for name in subject.judges
    }
    async with (
        assembled(subject.config, subject.servers, {**subject.ready, **judges}) as assembly,
        LoopGuard(frozen, frozen_s=limits.given_up_after_s) as guard,
    ):
        door = await door_of(assembly.client, subject.name)
        server = assembly.servers[subject.name]
        ours = server if isinstance(server, ResourcesServer) else None
        examination = Examination(
            server=ours,
            rules=RewardRules() if ours is None else ours.declared_reward_rules(),
            rows=subject.rows,
            cases=subject.cases,
            recorded=subject.recorded,
            player=Player(assembly.client, door, guard, timeout_s=limits.timeout_s),
            door=door,
            script=script if judges else None,
            limits=limits,
            now=now,
            declared_range=subject.declared_range,
        )
        for name, step in STEPS.items():
            if name not in steps:
                continue
            now.begin(name)
            try:
                results.append(await step(examination))
            except GivenUp as reason:
                findings = (*examination.blocks, *examination.late)
                results.append(CheckResult(name, Status.FAILED, now.probes, str(reason), findings))
                return VerifierReport(
                    subject.name, tuple(results), examination.latency_ms(), complete=False
                )
        return VerifierReport(subject.name, tuple(results), examination.latency_ms())
