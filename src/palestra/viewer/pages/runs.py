"""The list of runs, and the head, the figures and the live state of one."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import palestra
from palestra.analysis import (
    Bar,
    Estimate,
    GroupSummary,
    ReportValues,
    Spread,
    advice_about,
    run_head,
)
from palestra.errors import PalestraError
from palestra.records import RunEntry, RunState
from palestra.rollouts import read_if_valid
from palestra.schema import JsonDict, RunPaths
from palestra.viewer.catalog import RENEW_LIVE_S, Catalog, LiveReport, OpenRun, Overview
from palestra.viewer.discovery import RunPlace
from palestra.viewer.pages.terms import number_range, term
from palestra.viewer.replies.base import Base, Count, IntervalValue, NamedText
from palestra.viewer.replies.figures import (
    ComponentLine,
    FigureBar,
    Figures,
    GroupFigures,
    LengthBar,
    OutcomeLine,
    PassCurvePoint,
    RunFigures,
)
from palestra.viewer.replies.runs import (
    ClusterLink,
    InFlight,
    Live,
    PhaseLine,
    RunLine,
    RunList,
    RunPage,
    UnreadableLine,
    ViewerSession,
)
from palestra.viewer.requests import PageRequest, Viewer

OLDEST: Final = 20
MOST_PROBLEMS: Final = 100
NO_TRACE: Final = "no trace"
STALE_S: Final = 3.0
"""Live numbers older than this are shown with their age."""
STANDING_STILL: Final = (
    "Look whether what they wait for still answers: its log and its load. A rollout that hangs ends at "
    "its --rollout-timeout, and the failures then say what it waited for."
)


def session(request: PageRequest) -> ViewerSession:
    """Answer what the page needs to begin."""
    viewer = request.viewer
    return ViewerSession(
        version=palestra.__version__,
        query=viewer.query,
        tokenizer=viewer.tokenizer is not None,
        paths=list(viewer.arguments),
        clusters=[
            ClusterLink(id=run_place.id, name=run_place.name)
            for run_place in viewer.catalog.clusters
        ],
    )


def runs(request: PageRequest) -> RunList:
    """Answer the runs: live ones first, then by time."""
    return run_list(request.viewer)


def run_list(viewer: Viewer) -> RunList:
    """Return the runs: live ones first, then by time."""
    catalog = viewer.catalog
    lines = [run_line(catalog, run_place) for run_place in catalog.places]
    lines.sort(key=lambda line: (line.state != "running", -(line.started_at or 0.0), line.path))
    return RunList(runs=lines)


def run_line(catalog: Catalog, run_place: RunPlace) -> RunLine:
    """Return the line of a run: of its manifest, until its files have been read."""
    entry = catalog.entry(run_place)
    live = catalog.live(run_place.outputs)
    if entry is None:
        return _line_of_manifest(run_place, live)
    return _line(run_place, entry, live)


def _line(run_place: RunPlace, entry: RunEntry, live: LiveReport | None) -> RunLine:
    low, high = entry.interval or (None, None)
    return RunLine(
        id=run_place.id,
        path=str(run_place.path),
        name=run_place.name,
        environment=entry.environment,
        model=entry.model,
        state="running" if live is not None else entry.state.value,
        started_at=entry.started_at.timestamp() or None,
        requested=entry.requested,
        scored=entry.scored if live is None else int(live.report["scored"]),
        failed=entry.failed if live is None else int(live.report["failed"]),
        mean_reward=IntervalValue(value=entry.mean_reward, low=low, high=high),
        problem=entry.problem,
        **_pace(run_place, live),
    )


def _line_of_manifest(run_place: RunPlace, live: LiveReport | None) -> RunLine:
    _, manifest = read_if_valid(RunPaths(run_place.path).manifest)
    head = run_head(run_place.outputs)
    return RunLine(
        id=run_place.id,
        path=str(run_place.path),
        name=run_place.name,
        environment=head.environment,
        model=head.model,
        state=RunState.STOPPED.value if live is None else "running",
        started_at=None if head.started_at is None else head.started_at.timestamp(),
        requested=0 if manifest is None else manifest.requested,
        scored=0 if live is None else int(live.report["scored"]),
        failed=0 if live is None else int(live.report["failed"]),
        mean_reward=IntervalValue(value=live.report.get("mean_reward") if live else None),
        problem="" if live is not None else "its files are being read",
        **_pace(run_place, live),
    )


def _pace(run_place: RunPlace, live: LiveReport | None) -> dict[str, Any]:
    """Return rate, time left and rollouts in flight of a running collection."""
    if live is None:
        return {}
    report = live.report
    is_still = report.get("health") == "standing still"
    return {
        "rate": report.get("rate"),
        "left_s": report.get("left_s"),
        "health": report.get("health", ""),
        "health_text": report.get("health_text", ""),
        "health_advice": advice_about(run_place.outputs)(STANDING_STILL) if is_still else "",
        "in_flight": len(report["in_flight"]),
        "age_s": live.age_s if live.age_s > STALE_S else None,
    }


def base_of(run: OpenRun) -> Base:
    """Return what the numbers of a run rest on."""
    progress = run.progress
    return Base(
        rows=len(run.snapshot.rollouts),
        indexed_bytes=progress.bytes_indexed,
        total_bytes=progress.bytes_total,
        complete=run.is_complete,
        version=run.snapshot.version,
    )


def run(request: PageRequest) -> RunPage:
    """Answer the head of a run."""
    opened, viewer = request.run, request.viewer
    head = opened.head()
    settings = {
        "environment": head.environment,
        "model": head.model,
        "judge": head.judge,
        **head.settings,
        "verifier": head.verifier,
        "started": head.date,
    }
    folders = {path.parent for path in opened.place.outputs}
    line, no_field = line_of(viewer.catalog, opened), opened.group_error
    return RunPage(
        run=line,
        title=opened.title,
        settings=named_texts(settings),
        command=head.command,
        files=[str(path) for path in opened.place.outputs],
        base=base_of(opened),
        clusters=[
            ClusterLink(id=run_place.id, name=run_place.name)
            for run_place in viewer.catalog.clusters
            if run_place.folder in folders
        ],
        problems=bad_lines(opened, MOST_PROBLEMS),
        marks=[*filter(None, [opened.problem]), *opened.notices],
        group_problem="" if no_field is None else f"{no_field.message}; {no_field.hint}",
        query=viewer.query,
    )


def line_of(catalog: Catalog, opened: OpenRun) -> RunLine:
    """Return the line of an open run, from its index."""
    live = catalog.live(opened.place.outputs)
    try:
        return _line(opened.place, opened.entry(), live)
    except PalestraError:
        return run_line(catalog, opened.place)


def bad_lines(opened: OpenRun, limit: int) -> list[UnreadableLine]:
    """Return the lines that cannot be read, at most `limit`."""
    return [
        UnreadableLine(file=str(p.path), line=p.line, reason=p.reason)
        for p in opened.snapshot.problems[:limit]
    ]


def named_texts(values: JsonDict) -> list[NamedText]:
    """Return names and values as texts; empty values are left out."""
    return [
        NamedText(name=name, value=text)
        for name, value in values.items()
        if (text := text_of(value))
    ]


def text_of(value: Any) -> str:
    """Return a value as text: a text as it is, another as JSON; None is empty."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


# Figures


def figures(request: PageRequest) -> RunFigures:
    """Answer the numbers of the report. Those of a live run are at most 10 s old."""
    opened = request.run
    overview = opened.overview()
    request.stop.check()
    base = base_of(opened)
    try:
        run_figures = _figures(overview)
    except PalestraError as error:
        reason = "No number is joined from such files" if base.total_bytes else "Nothing is counted"
        absent = f"{error.message}. {reason}."
        return RunFigures(figures=None, absent=absent, base=base, computed_at=overview.made_at)
    return RunFigures(figures=run_figures, absent="", base=base, computed_at=overview.made_at)


def _figures(overview: Overview) -> Figures:
    values = overview.values
    total = overview.summary.total
    absent = total.requested - len(overview.snapshot.rollouts)
    grouped_by = "family" if overview.summary.by_family else "agent"
    return Figures(
        binary=values.binary,
        key_figures=list(values.key_figures),
        findings=list(values.remarks),
        notices=list(values.notices),
        solved=[
            Count(name=name, count=count)
            for name, count in zip(("never", "sometimes", "always"), values.solved, strict=True)
        ],
        pass_rates=bars(values.pass_rates, "pass_rate", of="tasks"),
        curve=[
            PassCurvePoint(k=p.k, best=spread(p.best), worst=p.worst, tasks=p.tasks)
            for p in values.curve
        ],
        rewards=bars(values.rewards, "reward", of="rollouts"),
        lengths=_lengths(values),
        outcomes=[
            OutcomeLine(
                name=e.name,
                count=e.count,
                share=e.count / total.requested if total.requested else 0.0,
                meaning=e.meaning,
                # requests of shards that left no files are in no row
                query=_ending_query(e.name) if e.name != NO_TRACE or e.count > absent else "",
            )
            for e in values.endings
        ],
        groups=[_group(group, grouped_by) for group in values.groups],
        grouped_by=grouped_by,
        components=[
            ComponentLine(
                name=c.name, rollouts=c.rollouts, mean=spread(c.mean), least=c.least, most=c.most
            )
            for c in values.components
        ],
    )


def _lengths(values: ReportValues) -> list[LengthBar]:
    bins = values.lengths.bins if values.lengths is not None else ()
    return [
        LengthBar(
            low=b.low,
            high=b.high,
            rollouts=b.rollouts,
            reward=spread(b.reward),
            query=f"outcome:scored {number_range('tokens.out', b.low, b.high)}",
        )
        for b in bins
    ]


def _ending_query(name: str) -> str:
    queries = {
        "truncated": "truncated:true",
        "empty answers": "empty:true",
        NO_TRACE: term("outcome", "not ended"),
    }
    return queries.get(name) or term("outcome", name)


def _group(group: GroupSummary, field: str) -> GroupFigures:
    scores = group.scores
    best = scores.pass_at[-1] if scores else None
    return GroupFigures(
        name=group.name,
        tasks=group.tasks,
        requested=group.requested,
        scored=group.scored,
        mean_reward=interval(scores.mean_reward) if scores else None,
        pass_at_1=scores.pass_at[0].value if scores else None,
        best_k=best.k if best else 1,
        best=best.value if best else None,
        best_tasks=best.tasks if best else 0,
        scored_tasks=scores.tasks if scores else 0,
        never=scores.never_solved if scores else None,
        sometimes=scores.sometimes_solved if scores else None,
        always=scores.always_solved if scores else None,
        output_tokens=scores.mean_output_tokens if scores else None,
        query=term(field, group.name),
    )


def bars(values: Sequence[Bar], field: str, *, of: Any) -> list[FigureBar]:
    """Return the bars of a figure, each with the query that selects what it counts."""
    return [
        FigureBar(
            label=bar.label,
            tick=bar.tick,
            count=bar.count,
            query=number_range(field, bar.low, bar.high) if bar.count else "",
            of=of,
        )
        for bar in values
    ]


def interval(estimate: Estimate) -> IntervalValue:
    """Return an estimate with its interval."""
    return IntervalValue(value=estimate.value, low=estimate.low, high=estimate.high)


def spread(value: Spread) -> IntervalValue:
    """Return a mean with its interval."""
    return IntervalValue(value=value.mean, low=value.low, high=value.high)


# Live


def live_state(viewer: Viewer, opened: OpenRun, computed_at: float) -> Live:
    """Return what a run does now. `computed_at`: when the page's figures were computed."""
    report = viewer.catalog.live(opened.place.outputs)
    in_flight: Sequence[JsonDict] = report.report["in_flight"] if report is not None else ()
    now = time.time()
    overview = opened.overview()
    return Live(
        run=line_of(viewer.catalog, opened),
        base=base_of(opened),
        phases=list(_phases(in_flight)),
        oldest=[_in_flight(job) for job in in_flight[:OLDEST]],
        last_failure="" if report is None else str(report.report.get("last_failure") or ""),
        at=now,
        changed=overview.made_at > computed_at and now - computed_at >= RENEW_LIVE_S,
    )


def _phases(in_flight: Sequence[JsonDict]) -> Iterator[PhaseLine]:
    counts: Counter[tuple[str, str]] = Counter()
    oldest: dict[tuple[str, str], float] = {}
    for job in in_flight:
        key = (str(job["phase"]), str(job["awaiting"]))
        counts[key] += 1
        oldest[key] = max(oldest.get(key, 0.0), float(job["awaiting_s"]))
    for (phase, awaiting), count in counts.most_common():
        yield PhaseLine(
            phase=phase, awaiting=awaiting, count=count, oldest_s=oldest[phase, awaiting]
        )


def _in_flight(job: JsonDict) -> InFlight:
    return InFlight(**{name: job[name] for name in InFlight.__struct_fields__})
