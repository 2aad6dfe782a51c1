"""`profile`: from a run's files to the table, and the rows behind it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palestra.cli.console import notice, say, warn_all
from palestra.cli.settings import ProfileArgs, args_from, load
from palestra.cli.tables import print_table
from palestra.profiling import (
    GroupSummary,
    ProfilePaths,
    RunSummary,
    load_run,
    summarize,
    write_agent_metrics,
    write_reward_profiling,
)
from palestra.profiling.report import write_report


def profile(overrides: list[str], *, ng: bool, extra: Mapping[str, Any] | None = None) -> int:
    """Profile a run as the settings say."""
    config = load(overrides, ng=ng, extra=extra, require_all=False)
    warn_all(config.warnings)
    args = args_from(ProfileArgs, config.tree)
    return profile_files(
        Path(args.materialized_inputs_jsonl_fpath),
        Path(args.rollouts_jsonl_fpath),
        allow_partial=args.allow_partial_rollouts,
        group_by=args.group_by,
    )


def profile_files(
    inputs: Path, rollouts: Path, *, allow_partial: bool, group_by: str | None
) -> int:
    """Write the profile beside `rollouts` and print its table."""
    paths = ProfilePaths.for_rollouts(rollouts)
    frame = load_run(
        inputs,
        rollouts,
        failures_path=paths.failures if paths.failures.exists() else None,
        allow_partial=allow_partial,
        group_by=group_by,
    )
    write_reward_profiling(frame, paths.reward_profiling)
    write_agent_metrics(frame, paths.agent_metrics)
    summary = summarize(frame)
    write_report(frame, paths.report, summary)
    for text in summary.notices:
        notice(text)
    if allow_partial:
        say(str(summary.completeness))
    show_summary(summary, by_family=group_by is not None)
    say(f"  {paths.reward_profiling}")
    say(f"  {paths.agent_metrics}")
    say(f"  {paths.report}")
    return 0


def show_summary(summary: RunSummary, *, by_family: bool) -> None:
    """The table: one line per family or agent, then all."""
    groups = list(summary.by_family if by_family else summary.by_agent)
    if len(groups) != 1:
        groups.append(summary.total)
    ks = _columns_of(groups)
    columns = ("group", "tasks", "scored", "mean reward", *(f"pass@{k}" for k in ks))
    tail = ("never", "sometimes", "always", "tokens out", "failures")
    print_table(
        (*columns, *tail),
        [_row(group, ks) for group in groups],
        right=",".join((*columns[1:], *tail[:-1])),
    )


def _columns_of(groups: list[GroupSummary]) -> list[int]:
    found = {at.k for group in groups if group.scores for at in group.scores.pass_at}
    return sorted(found)


def _row(group: GroupSummary, ks: list[int]) -> list[str]:
    scores = group.scores
    failures = ", ".join(f"{name} {count}" for name, count in sorted(group.failures.items()))
    head = [group.name, str(group.tasks), f"{group.scored}/{group.requested}"]
    if scores is None:
        return [*head, *["-"] * (len(ks) + 5), failures or "-"]
    passed = {at.k: f"{at.value:.3f}" for at in scores.pass_at}
    mean = scores.mean_reward
    interval = "" if mean.low is None else f" ± {mean.value - mean.low:.3f}"
    tokens = scores.mean_output_tokens
    return [
        *head,
        f"{mean.value:.3f}{interval}",
        *(passed.get(k, "-") for k in ks),
        f"{scores.never_solved:.0%}",
        f"{scores.sometimes_solved:.0%}",
        f"{scores.always_solved:.0%}",
        "-" if tokens is None else f"{tokens:.0f}",
        failures or "-",
    ]
