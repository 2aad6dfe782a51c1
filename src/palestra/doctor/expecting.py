"""Forecast what the run takes, and check whether there is enough time and disk."""

import tempfile
from dataclasses import replace
from pathlib import Path

from palestra.config import ResolvedConfig, ServerType
from palestra.doctor.checking import LOCAL_S, Looked, Round, ended_check
from palestra.doctor.checks import infra
from palestra.doctor.findings import quote
from palestra.doctor.forecast import Forecast, Price, Share, forecast, prices_in
from palestra.doctor.subject import ExaminedRun, SharedFacts
from palestra.doctor.survey import AgentRows
from palestra.doctor.tabled import tabled
from palestra.errors import Layer
from palestra.settings import CollectSettings


async def expect(subject: ExaminedRun, round_: Round, facts: SharedFacts) -> Forecast | None:
    """Check whether time and disk suffice, and return the run's forecast; None without a plan."""
    shares = [_share(subject.config, facts, rows) for rows in facts.rows]
    examine = round_.look
    slow = _check_answers_in_time(shares, subject.settings)
    await examine(Layer.THROUGHPUT, "answers in time", ended_check(slow), within_s=1)
    prices: dict[str, Price] = {}
    expected: Forecast | None = None

    async def priced() -> Looked:
        nonlocal prices
        prices = prices_in(subject.own.tree)
        return Looked(f"of {', '.join(prices)}" if prices else "none", skipped=not prices)

    async def disk() -> Looked:
        nonlocal expected
        expected = forecast(
            shares,
            remaining=facts.remaining,
            in_flight=facts.in_flight,
            prices=prices,
        )
        output = subject.settings.output_jsonl_fpath
        looked = infra.check_disk(
            output, expected.output_bytes, temporary=Path(tempfile.gettempdir())
        )
        # Of a place that takes nothing at all, its room is not the matter.
        already_found = any(finding.cause in infra.TAKES_NOTHING for finding in round_.findings())
        return replace(looked, findings=()) if already_found else looked

    await examine(Layer.CONFIG, "prices", priced(), within_s=1)
    await examine(Layer.INFRA, "disk", disk(), within_s=LOCAL_S)
    return expected if shares else None


def _share(config: ResolvedConfig, facts: SharedFacts, rows: AgentRows) -> Share:
    endpoint = facts.endpoint_of(config.instance(rows.agent))
    environments = config.instance(rows.agent).referenced(ServerType.RESOURCES)
    judged = any(facts.judges(config.instance(name)) for name in environments)
    name = endpoint.name if endpoint is not None else ""
    pace = facts.paces.get(rows.agent) or (endpoint.pace if endpoint else None)
    settings = config.instances[name].settings if name in config.instances else {}
    ids = bool(settings.get("return_token_id_information"))
    return Share(rows, name, pace, judged=judged, token_ids=ids)


def _check_answers_in_time(shares: list[Share], settings: CollectSettings) -> Looked:
    """Check whether a response of full length fits into a rollout's timeout at the measured pace."""
    findings = []
    paced = [(s, s.pace, s.rows.most_output) for s in shares if s.pace is not None]
    for share, pace, most_output in paced:
        if (
            most_output is None
            or (took := pace.seconds_for(most_output)) <= settings.rollout_timeout
        ):
            continue
        findings.append(
            tabled(
                "throughput.rollout-timeout",
                f"an answer of {most_output:,} tokens takes {share.model} about {took:,.0f} s, "
                f"and a rollout has {settings.rollout_timeout:,.0f}",
                quote(share.model, f"{pace.output_tokens} tokens in {pace.seconds:.2f} s"),
                seconds=f"{2 * took:.0f}",
            )
        )
    if not paced:
        return Looked("no pace was measured", skipped=True)
    return Looked(
        "full-length answers fit into a rollout's time" * (not findings) or "too slow",
        tuple(findings),
    )
