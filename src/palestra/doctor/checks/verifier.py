"""Verifier checks: verify empty answers in every environment, and send one request to its judge."""

import math
import re
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from palestra.causes import Severity
from palestra.conformance import LoopGuard, PlayedAnswer, Player, door_of
from palestra.doctor.checking import Looked
from palestra.doctor.faults import finding_of
from palestra.doctor.findings import Finding, quote
from palestra.doctor.patience import PATIENCE_S, asked_once
from palestra.doctor.tabled import tabled
from palestra.errors import CallError, JudgeFailure, Layer, RowIdentity
from palestra.schema import TASK_INDEX, JsonObject, JudgeReplay, response_of
from palestra.server import Hearing, Judge, JudgeConfig, Server
from palestra.transport import ServerClient

ONE_ANSWER_S: Final = 30.0
SEVERAL_S: Final = 3.0
"""After this many seconds no further row is tried."""
_NUMBER: Final = re.compile(r"\d+")
BLOCKED_S: Final = 0.5
"""Longest time that one verification may block the event loop, in seconds."""
NO_ANSWER: Final = response_of("")
WRONG_ANSWER: Final = response_of("I do not know.")


async def check_empty_answers(
    client: ServerClient,
    environment: str,
    rows: Sequence[JsonObject],
    guard: LoopGuard,
    *,
    wrong: float | None,
    broken: Collection[str] = (),
) -> Looked:
    """Verify an empty answer for each of `rows`, as a rollout would, until `SEVERAL_S` is over.

    `wrong`: the highest reward that a wrong answer may get; None when the server's rules are
    unknown. `broken`: models that the verifier calls and that do not respond; they are already
    reported.
    """
    door = await door_of(client, environment)
    player = Player(client, door, guard, timeout_s=PATIENCE_S if broken else ONE_ANSWER_S)
    began = time.monotonic()
    summary = ""
    tried = 0
    alike_findings: dict[tuple[str, str], list[Finding]] = {}
    for row in rows:
        verdict = await player.verify(row, NO_ANSWER)
        if broken and (verdict.timed_out or _is_of_a_model(verdict.failure)):
            return Looked(f"not tried: it asks {', '.join(broken)}", skipped=True)
        tried += 1
        reward = "no reward" if verdict.reward is None else f"reward {verdict.reward:g}"
        summary = summary or f"an empty answer gets {reward} in {verdict.seconds * 1000:.0f} ms"
        at = RowIdentity(task=row.get(TASK_INDEX))
        for finding in _findings(environment, verdict, wrong):
            alike = (finding.cause, _NUMBER.sub("0", finding.symptom))
            alike_findings.setdefault(alike, []).append(replace(finding, row=finding.row or at))
        if verdict.timed_out or time.monotonic() - began > SEVERAL_S:
            break
    tried_text = f"; tried on {tried} rows" if tried > 1 else ""
    return Looked(
        summary + tried_text, tuple(_as_one(alike, tried) for alike in alike_findings.values())
    )


def _as_one(alike: Sequence[Finding], tried: int) -> Finding:
    """Combine equal findings of several rows into one, which names the first row."""
    if tried == 1:
        return alike[0]
    first = alike[0]
    return replace(first, symptom=f"{first.symptom} (in {len(alike)} of {tried} rows tried)")


def _findings(environment: str, verdict: PlayedAnswer, wrong: float | None) -> list[Finding]:
    candidates = (
        _failed(environment, verdict),
        _rewarded(environment, verdict, wrong),
        _blocked(environment, verdict),
    )
    return [finding for finding in candidates if finding is not None]


def _is_of_a_model(failure: CallError | None) -> bool:
    return failure is not None and failure.layer is not Layer.VERIFIER


def _failed(environment: str, verdict: PlayedAnswer) -> Finding | None:
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


def _rewarded(environment: str, verdict: PlayedAnswer, wrong: float | None) -> Finding | None:
    expected_most = 0.0 if wrong is None else wrong
    if verdict.reward is None or math.isnan(verdict.reward) or verdict.reward <= expected_most:
        return None
    return tabled(
        "verifier.rewards-nothing",
        f"{environment} gives an empty answer {verdict.reward:g}",
        environment=environment,
    )


def _blocked(environment: str, verdict: PlayedAnswer) -> Finding | None:
    if verdict.blocked_s <= BLOCKED_S:
        return None
    return tabled(
        "throughput.blocks-event-loop",
        f"{environment} blocked the event loop for {verdict.blocked_s:.1f} s to verify an empty "
        "answer",
        severity=Severity.WARNING,
    )


def frozen(environment: str, still_s: float) -> Looked:
    """Return the finding for a verifier that has blocked the event loop for `still_s` seconds."""
    finding = tabled(
        "verifier.holds-event-loop",
        f"{environment} has been blocking the event loop for {still_s:.0f} s to verify an empty "
        "answer",
    )
    return Looked("the call never returned", (finding,))


async def check_judge(
    client: ServerClient, environment: str, server: Server | None, row: JsonObject
) -> Looked:
    """Send one question to the judge and read its verdict as the environment does.

    If the environment's server object is missing or has its own way to call a judge, a wrong answer
    is verified instead. This verification may or may not call the judge.
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
    return await asked_once(lambda: hearing.ask(question), within_s=ONE_ANSWER_S)


async def _by_a_wrong_answer(client: ServerClient, environment: str, row: JsonObject) -> Looked:
    door = await door_of(client, environment)
    async with LoopGuard(_ignore, frozen_s=ONE_ANSWER_S) as guard:
        player = Player(client, door, guard, timeout_s=ONE_ANSWER_S)
        verdict = await player.verify(row, WRONG_ANSWER)
    failure = verdict.failure
    if (
        failure is not None
        and not isinstance(failure, JudgeFailure)
        and not _is_of_a_model(failure)
    ):
        # The verifier's own, whatever its judge would have said.
        finding = replace(finding_of(failure), row=RowIdentity(task=row.get(TASK_INDEX)))
        return Looked("a wrong answer cannot be verified", (finding,))
    if failure is not None:
        return Looked("no verdict", (_unjudged(environment, failure),))
    return Looked("a wrong answer was verified, with the judge or without")


def _unjudged(environment: str, error: CallError) -> Finding:
    finding = finding_of(error)
    if isinstance(error, JudgeFailure):
        # What the judge said is in the message; it is the evidence.
        match = _SAID.search(error.message)
        quoted = (quote("the judge's reply", match[1] if match else error.message),)
        finding = replace(finding, evidence=(*finding.evidence, *quoted))
    return replace(finding, symptom=f"the judge of {environment}: {finding.symptom}")


_SAID: Final = re.compile(r"gives neither .*?: (.*)", re.DOTALL)


def _ignore(_still_s: float) -> None:
    return None
