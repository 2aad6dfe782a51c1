"""Verifier: one answer that is empty, for every environment; and its judge, asked once."""

import math
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from palestra.conformance import LoopGuard, Player, Verdict, door_of
from palestra.doctor.checking import Looked
from palestra.doctor.faults import finding_of
from palestra.doctor.findings import Finding, Severity, quote
from palestra.doctor.tabled import tabled
from palestra.errors import CallError, JudgeFailure, RowIdentity
from palestra.schema import TASK_INDEX, JudgeReplay, response_of
from palestra.serving import Hearing, Judge, JudgeConfig, Server
from palestra.transport import CallContext, ServerClient, calling

ONE_ANSWER_S: Final = 30.0
BLOCKED_S: Final = 0.5
"""For how long one verification may hold the event loop."""
NO_ANSWER: Final = response_of("")
WRONG_ANSWER: Final = response_of("I do not know.")


async def check_empty_answer(
    client: ServerClient,
    environment: str,
    row: Mapping[str, Any],
    guard: LoopGuard,
    *,
    wrong: float | None,
) -> Looked:
    """Bring an empty answer to one row before the verifier, as a rollout would.

    `wrong`: the most that a wrong answer may get; None where the server's rules are not known.
    """
    door = await door_of(client, environment)
    player = Player(client, door, guard, timeout_s=ONE_ANSWER_S)
    verdict = await player.verify(row, NO_ANSWER)
    findings = [
        finding
        for finding in (
            _failed(environment, verdict),
            _rewarded(environment, verdict, wrong),
            _blocked(environment, verdict),
        )
        if finding is not None
    ]
    told = "no reward" if verdict.reward is None else f"reward {verdict.reward:g}"
    at = RowIdentity(task=row.get(TASK_INDEX))
    return Looked(
        f"an empty answer gets {told} in {verdict.seconds * 1000:.0f} ms",
        tuple(replace(finding, row=finding.row or at) for finding in findings),
    )


def _failed(environment: str, verdict: Verdict) -> Finding | None:
    if verdict.timed_out:
        return tabled(
            "verifier.hangs",
            f"{environment} did not verify an empty answer within {ONE_ANSWER_S:g} s",
            environment=environment,
        )
    if verdict.failure is None:
        return None
    finding = finding_of(verdict.failure)
    if environment in finding.symptom:
        return finding
    return replace(finding, symptom=f"{environment}: {finding.symptom}")


def _rewarded(environment: str, verdict: Verdict, wrong: float | None) -> Finding | None:
    most = 0.0 if wrong is None else wrong
    if verdict.reward is None or math.isnan(verdict.reward) or verdict.reward <= most:
        return None
    return tabled(
        "verifier.rewards-nothing",
        f"{environment} gives an empty answer {verdict.reward:g}",
        environment=environment,
    )


def _blocked(environment: str, verdict: Verdict) -> Finding | None:
    if verdict.blocked_s <= BLOCKED_S:
        return None
    return tabled(
        "throughput.blocks-event-loop",
        f"{environment} held the event loop for {verdict.blocked_s:.1f} s to verify an empty "
        "answer",
        severity=Severity.WARNING,
    )


def frozen(environment: str, still_s: float) -> Looked:
    """Of a verifier that has held the event loop for so long, and may do so for ever."""
    finding = tabled(
        "verifier.holds-event-loop",
        f"{environment} has been holding the event loop for {still_s:.0f} s to verify an empty "
        "answer",
    )
    return Looked("it never came back", (finding,))


async def check_judge(
    client: ServerClient, environment: str, server: Server | None, row: Mapping[str, Any]
) -> Looked:
    """Ask the judge one question, and read its verdict as the environment does.

    Of an environment that is not here as an object, or asks in a way of its own: a wrong answer
    is verified, which may or may not come before the judge.
    """
    config = None if server is None else server.config
    try:
        if isinstance(config, JudgeConfig) and config.places:
            label = await _ask(client, config)
            return Looked(f"{Judge(client, config).name} answers {label}")
        return await _by_a_wrong_answer(client, environment, row)
    except CallError as error:
        return Looked("no verdict", (_unjudged(environment, error),))


async def _ask(client: ServerClient, config: JudgeConfig) -> str:
    judge = Judge(client, config)
    passages = dict.fromkeys(config.places, "2 + 2 = 4")
    compared = tuple(config.places)[-2:]
    question = config.question(passages, (compared[0], compared[-1]))
    hearing = Hearing(judge, JudgeReplay(), swaps=False)
    with calling(CallContext(deadline=_deadline())):
        return await hearing.ask(question)


async def _by_a_wrong_answer(
    client: ServerClient, environment: str, row: Mapping[str, Any]
) -> Looked:
    door = await door_of(client, environment)
    async with LoopGuard(_ignore, frozen_s=ONE_ANSWER_S) as guard:
        player = Player(client, door, guard, timeout_s=ONE_ANSWER_S)
        verdict = await player.verify(row, WRONG_ANSWER)
    if isinstance(verdict.failure, CallError):
        return Looked("no verdict", (_unjudged(environment, verdict.failure),))
    return Looked("a wrong answer was verified, with the judge or without")


def _unjudged(environment: str, error: CallError) -> Finding:
    finding = finding_of(error)
    if isinstance(error, JudgeFailure):
        # What the judge said is in the message; it is the evidence.
        said = _SAID.search(error.message)
        shown = (quote("the judge's reply", said[1] if said else error.message),)
        finding = replace(finding, evidence=(*finding.evidence, *shown))
    return replace(finding, symptom=f"the judge of {environment}: {finding.symptom}")


_SAID: Final = re.compile(r"gives neither .*?: (.*)", re.DOTALL)


def _ignore(_still_s: float) -> None:
    return None


def _deadline() -> float:
    return time.monotonic() + ONE_ANSWER_S
