"""The state of a running examination: the probes, and the verifier's verdicts so far."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from palestra.conformance.answers import guesses, spoken
from palestra.conformance.cases import Case, ExaminationLimits
from palestra.conformance.judging import WORDS, Script
from palestra.conformance.playing import EnvironmentInterface, PlayedAnswer, Player
from palestra.conformance.report import (
    LONGEST_PROBLEM,
    SHOWN,
    CheckResult,
    Status,
    VerifierFault,
)
from palestra.errors import JudgeFailure, PalestraError, ends_of
from palestra.schema import JsonObject, Response
from palestra.server import ResourcesServer, RewardRules, error_text

CLOSE = 1e-9
LONG_S = 2.0
"""From when on an answer that is being verified is named, in seconds."""
MOST_SLOW = 5
MOST_FINDINGS = 20
SURELY_BLOCKED = 4
"""A block of this many times the limit needs only one confirmation."""


class GivenUp(Exception):
    """Raised when the environment is too slow, so that the remaining answers are not verified."""


@dataclass(frozen=True, slots=True)
class ProbedAnswer:
    """One answer to one row. `number`: the number of the example row, if it is one."""

    kind: str
    task: JsonObject
    response: Response
    number: int | None = None
    expected: float | None = None
    """The reward that the answer must get. None: the environment's reward rules for its kind apply.
    """
    stored: bool = False
    derive: bool = True

    def finding(self, problem: str) -> VerifierFault:
        """Return a finding that describes what went wrong with this answer."""
        problem = ends_of(problem, LONGEST_PROBLEM)
        return VerifierFault(self.number, self.kind, problem, ends_of(spoken(self.response), SHOWN))


@dataclass(slots=True)
class Now:
    """The probe that is being verified, for the report of a verifier that never returns."""

    check: str = ""
    kind: str = ""
    row: int | None = None
    answer: str = ""
    probes: int = 0
    began: float = field(default_factory=time.monotonic)
    """When the verification of the probe began."""
    limit_s: float = math.inf
    """How long it may take."""
    on_probe: Callable[[], object] = lambda: None
    """Called before each answer is verified."""

    def begin(self, check: str) -> None:
        """Note that the check `check` begins."""
        self.check, self.probes = check, 0
        self.kind, self.began, self.limit_s = "", time.monotonic(), math.inf

    def verifying(self, probe: ProbedAnswer, limit_s: float) -> None:
        """Note that `probe` is about to be verified within `limit_s`, and call `on_probe`."""
        self.probes += 1
        self.began, self.limit_s = time.monotonic(), limit_s
        self.kind, self.row = probe.kind, probe.number
        self.answer = ends_of(spoken(probe.response), SHOWN)
        self.on_probe()

    def sentence(self) -> str:
        """Return which check runs, and how many answers it has verified. Of one that takes long: which,
        and for how long.
        """
        if not self.kind:
            return f"check {self.check}" if self.check else "starting the environment"
        elapsed_s = time.monotonic() - self.began
        if elapsed_s < LONG_S:
            return f"check {self.check}: {self.probes - 1} answers are verified"
        kind = self.kind.removeprefix(f"{self.check}: ")
        row = "" if self.row is None else f", row {self.row}"
        limit = f", at most {self.limit_s:g} s" if math.isfinite(self.limit_s) else ""
        return (
            f"check {self.check}: answer {self.probes} ({kind}{row}) is being verified for "
            f"{elapsed_s:.0f} s{limit}"
        )


@dataclass(slots=True)
class Examination:
    """The environment, its rules and known answers, and every verdict so far."""

    server: ResourcesServer | None
    rules: RewardRules
    rows: Sequence[JsonObject]
    cases: Sequence[Case]
    recorded: Sequence[Case]
    player: Player
    door: EnvironmentInterface
    script: Script | None
    limits: ExaminationLimits
    now: Now
    declared_range: tuple[float, float] | None = None
    """The lowest and the highest reward of the environment's manifest."""
    seen: list[tuple[ProbedAnswer, PlayedAnswer]] = field(default_factory=list)
    """The ordinary probes with their verdicts, in order."""
    all_verdicts: list[tuple[ProbedAnswer, PlayedAnswer]] = field(default_factory=list)
    golds: list[ProbedAnswer] = field(default_factory=list)
    words: tuple[str, str] | None = None
    """The judge's words to award and to refuse, once they are known."""
    blocks: list[VerifierFault] = field(default_factory=list)
    late: list[VerifierFault] = field(default_factory=list)
    refused: list[VerifierFault] = field(default_factory=list)
    """Findings for rows whose `gold_response` raised an exception."""

    async def look(self, probe: ProbedAnswer, *, award: bool = False) -> PlayedAnswer:
        """Verify one answer and store the verdict. `award`: whether the scripted judge awards."""
        self.let_judge(award=award)
        verdict = await self.ask(probe, blocked_s=self.limits.blocked_s)
        self.seen.append((probe, verdict))
        return verdict

    async def ask(
        self, probe: ProbedAnswer, *, blocked_s: float, limit_s: float | None = None
    ) -> PlayedAnswer:
        """Verify one answer within `limit_s`; record a finding when it blocks the event loop for longer
        than `blocked_s`.
        """
        limit_s = self.limits.timeout_s if limit_s is None else limit_s
        self.now.verifying(probe, limit_s)
        verdict = await self._verdict(probe, limit_s)
        self.all_verdicts.append((probe, verdict))
        if verdict.blocked_s > blocked_s:
            await self._check_block(probe, verdict, blocked_s, limit_s)
        if verdict.timed_out:
            self.late.append(probe.finding(self.trouble(verdict)))
        for findings, why in (
            (self.blocks, "blocked the loop"),
            (self.late, "were not verified in time"),
        ):
            if len(findings) >= MOST_SLOW:
                raise GivenUp(f"the check stopped early: {len(findings)} answers {why}")
        return verdict

    async def _verdict(self, probe: ProbedAnswer, timeout_s: float) -> PlayedAnswer:
        return await self.player.verify(
            probe.task,
            probe.response,
            number=probe.number,
            stored=probe.stored,
            timeout_s=timeout_s,
        )

    async def _check_block(
        self, probe: ProbedAnswer, verdict: PlayedAnswer, limit_s: float, timeout_s: float
    ) -> None:
        """Verify a blocking answer again; record a finding only when it blocks each time.

        A busy machine, or a first import, causes a block only once.
        """
        shortest = verdict.blocked_s
        for _ in range(3 if verdict.blocked_s < SURELY_BLOCKED * limit_s else 1):
            repeated = await self._verdict(probe, timeout_s)
            shortest = min(shortest, repeated.blocked_s)
            if shortest <= limit_s:
                return
        self.blocks.append(probe.finding(f"blocked the event loop for {shortest:.2f} s, each time"))

    def let_judge(self, *, award: bool) -> None:
        """Make the scripted judge award, or refuse, from now on."""
        if self.script is not None:
            words = self.words or self.rules.judge_words or WORDS[0]
            self.script.says = words[0] if award else words[1]

    def known(self) -> Iterator[ProbedAnswer]:
        """Yield the answers whose reward is declared: the cases, and the gold of each row."""
        for case in self.cases:
            kind = "gold" if self.is_gold(case.reward) else "case"
            yield ProbedAnswer(
                kind, case.task, case.response, case.number, case.reward, derive=case.derive
            )
        for number, row in enumerate(self.rows):
            gold = self._gold_of(number, row)
            if gold is not None:
                yield ProbedAnswer("gold", row, gold, number)

    def _gold_of(self, number: int, row: JsonObject) -> Response | None:
        if self.server is None:
            return None
        try:
            return self.server.gold_response(row)
        except Exception as error:  # an author's code, about a row that it may not have thought of
            # An error of ours says already what the author wrote.
            problem = (
                error.message
                if isinstance(error, PalestraError)
                else f"gold_response raised {error_text(error)}"
            )
            self.refused.append(VerifierFault(number, "gold", problem))
            return None

    def is_gold(self, reward: float) -> bool:
        """Whether a declared reward is the reward of a right answer."""
        if self.rules.highest == float("inf"):
            return reward > self.rules.wrong
        return reward >= self.rules.highest - CLOSE

    def stored(self) -> Iterator[ProbedAnswer]:
        """Yield the recorded rollouts that can be verified again."""
        if self.server is None or self.script is not None:
            return
        if self.server.declared_reverify_mode() != "stateless":
            return
        for case in self.recorded:
            yield ProbedAnswer(
                "recorded", case.task, case.response, case.number, case.reward, stored=True
            )

    def guessed(self) -> Iterator[list[ProbedAnswer]]:
        """Yield for each row the answers that its own fields suggest as right."""
        for number, row in enumerate(self.rows):
            guessed_answers = [
                ProbedAnswer("gold", row, response, number) for response in guesses(row)
            ]
            if guessed_answers:
                yield guessed_answers

    def problem(self, probe: ProbedAnswer, verdict: PlayedAnswer) -> str:
        """Return what is wrong with the verdict on a declared or right answer; empty when it is
        correct.
        """
        if trouble := self.trouble(verdict):
            return trouble
        reward = verdict.reward or 0.0
        if probe.expected is not None:
            right = abs(reward - probe.expected) <= CLOSE
            return "" if right else f"got {reward:g}, not {probe.expected:g}"
        if self.is_gold(reward):
            return ""
        return f"got {reward:g}, a right answer gets {self.rules.highest:g}"

    def too_much(self, verdict: PlayedAnswer) -> str:
        """Return what is wrong with the verdict on a wrong answer; empty when it is correct."""
        if trouble := self.trouble(verdict):
            return trouble
        reward = verdict.reward or 0.0
        if reward <= self.rules.wrong + CLOSE:
            return ""
        return f"got {reward:g}, a wrong answer gets at most {self.rules.wrong:g}"

    def trouble(self, verdict: PlayedAnswer, *, judge_may_fail: bool = False) -> str:
        """Return why the verdict has no reward; empty when it has one."""
        if verdict.timed_out:
            return f"was not verified within {verdict.limit_s:g} s"
        if verdict.failure is None:
            return ""
        if judge_may_fail and isinstance(verdict.failure, JudgeFailure):
            return ""
        return verdict.failure.message

    def latency_ms(self) -> dict[str, float]:
        """Return percentiles of the time of `verify` over ordinary answers, in milliseconds."""
        times = sorted(verdict.seconds for _, verdict in self.seen if verdict.reward is not None)
        if not times:
            return {}
        last = len(times) - 1
        points = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
        return {name: round(1000 * times[round(last * at)], 3) for name, at in points.items()}


def result(
    name: str, probes: int, findings: Sequence[VerifierFault], note: str = ""
) -> CheckResult:
    """Return the result of a check that ran: failed when it has findings."""
    status = Status.FAILED if findings else Status.PASSED
    hidden_count = len(findings) - MOST_FINDINGS
    if hidden_count > 0:
        note = f"{note}; {hidden_count} more findings are left out".lstrip("; ")
    return CheckResult(name, status, probes, note, tuple(findings[:MOST_FINDINGS]))


def skipped(name: str, why: str) -> CheckResult:
    """Return the result of a check that did not run. `why`: the reason."""
    return CheckResult(name, Status.SKIPPED, 0, why)
