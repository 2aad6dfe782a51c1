"""`profile`: compute the reward statistics of a run from its files, and print the table."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from palestra import api
from palestra.analysis import (
    Files,
    GroupSummary,
    OutsideRules,
    PassAtK,
    Range,
    RunSummary,
    amount,
    over_tasks,
)
from palestra.api import RunProfile
from palestra.cli.console import notice, say, say_json, warn_all
from palestra.cli.tables import print_table
from palestra.config import ConfigTree, parse_overrides
from palestra.errors import InputDataError
from palestra.schema import RunPaths, is_compressed
from palestra.settings import HOW_TO_GIVE, CollectArgs, ProfileArgs, args_from, load
from palestra.system import shown

LOWEST: Final = "the lowest reward"
A_ROLLOUT: Final = "a rollout"
"""What a line says about the rollout that its command shows."""
_WHAT_TO_TYPE = "pass the rollouts: `palestra profile ROLLOUTS.jsonl`, or --rollouts with a glob"


def profile(
    overrides: list[str], *, ng: bool, extra: ConfigTree | None = None, as_json: bool = False
) -> int:
    """Profile a run according to the settings."""
    config = load(overrides, ng=ng, extra=extra, require_all=False)
    warn_all(config.warnings)
    args = args_from(ProfileArgs, config.tree, hint=HOW_TO_GIVE if ng else _WHAT_TO_TYPE)
    if ng and (ignored := _ignored(overrides)):
        notice(
            f"warning: ng_reward_profile does not use {', '.join(ignored)}: it reads "
            "+rollouts_jsonl_fpath and +materialized_inputs_jsonl_fpath, and writes beside the rollouts"
        )
    profiled = profile_files(
        args.materialized_inputs_jsonl_fpath,
        args.rollouts_jsonl_fpath,
        allow_partial=args.allow_partial_rollouts,
        group_by=args.group_by,
    )
    if args.aggregate:
        # only then are agents needed, and what starts them
        from palestra.cli.merging import ask_agents

        rollouts = _one_plain_file(profiled.rollouts)
        destination = RunPaths(rollouts).aggregate_metrics
        ask_agents(config, rollouts, destination)
        say(f"  {shown(destination)}")
    if as_json:
        say_json(profiled.to_dict())
    return 0


def _ignored(overrides: list[str]) -> list[str]:
    """Return the settings of collections among the overrides, as `+limit`: a profile uses none."""
    keys = dict.fromkeys(override.steps[0] for override in parse_overrides(overrides))
    used = ProfileArgs.model_fields.keys()
    return [f"+{key}" for key in keys if key in CollectArgs.model_fields and key not in used]


def profile_files(
    inputs: Files | None,
    rollouts: Files,
    *,
    allow_partial: bool,
    group_by: str | None,
    allow_ungrouped: bool = False,
) -> RunProfile:
    """Write the profile next to the rollouts, print its table and return it."""
    profiled = api.profile(
        rollouts,
        inputs,
        allow_partial=allow_partial,
        group_by=group_by,
        allow_ungrouped=allow_ungrouped,
    )
    summary, paths = profiled.summary, profiled.paths
    for text in summary.notices:
        notice(text)
    if allow_partial:
        say(str(summary.completeness))
    show_summary(summary, by_family=group_by is not None)
    if profiled.majorities:
        votes = (f"maj@{k} {value:.3f}" for k, value in profiled.majorities.items())
        say("  " + ", ".join(votes))
    for path in (paths.reward_profiling, paths.agent_metrics, paths.report):
        if path.exists():
            say(f"  {shown(path)}")
    sources = [rollouts] if isinstance(rollouts, str | Path) else list(rollouts)
    if len(sources) == 1:
        if line := what_to_look_at(summary, sources[0]):
            say(line)
        warn_all(doubts(summary, sources[0]))
    return profiled


def what_to_look_at(summary: RunSummary, run: str | Path) -> str:
    """Return a line with the command that shows a rollout of `run`; empty when none has ended."""
    rollout = summary.to_look_at
    if rollout is None:
        return ""
    what = LOWEST if rollout.is_lowest else A_ROLLOUT
    if not rollout.has_reward:
        what = "a rollout without a reward"
    return f"{what}: palestra show {shlex.quote(shown(Path(run)))} {rollout.key}"


def doubts(summary: RunSummary, run: str | Path) -> Iterator[str]:
    """Yield a sentence for each thing that makes the scores of a run doubtful."""
    total, diagnose = summary.total, f"palestra diagnose {shlex.quote(shown(Path(run)))}"
    if total.tool_failures:
        verb = "has" if total.tool_failures == 1 else "have"
        yield (
            f"{amount(total.tool_failures, 'scored rollout')} {verb} tool failures, exceptions or "
            f"refused calls that their authors did not mean: {diagnose} names them"
        )
    for unused in summary.unused_weights:
        owner = f"{unused.agent}: " if unused.agent else ""
        yield f"{owner}{unused}; {diagnose} says what helps"
    if outside := total.outside_rules:
        verb = "lies" if outside.rewards == 1 else "lie"
        ends = dict.fromkeys(f"{reward:g}" for reward in (outside.lowest, outside.highest))
        declared = f"reward_rules = RewardRules({_limits_for(outside)})"
        cure = (
            "that may come of the weights"
            if summary.unused_weights
            else f"if that is meant, declare it: {declared}"
        )
        yield (
            f"{amount(outside.rewards, 'reward')} ({' to '.join(ends)}) {verb} outside the reward_rules "
            f"of the environment, 0 to 1 unless it declares others; {cure}; {diagnose} shows some"
        )


def _limits_for(outside: OutsideRules) -> str:
    lowest = f"lowest={outside.lowest:g}" if outside.lowest < 0 else ""
    highest = f"highest={outside.highest:g}" if outside.highest > 1 else ""
    return ", ".join(filter(None, (lowest, highest)))


def show_summary(summary: RunSummary, *, by_family: bool) -> None:
    """Print the table: one line per family or agent, then one line for all.

    When rollouts are missing, a second line has the range of each number over all requested
    rollouts.
    """
    groups = list(summary.by_family if by_family else summary.by_agent)
    if len(groups) != 1:
        groups.append(summary.total)
    ks = sorted({at.k for group in groups if group.scores for at in group.scores.pass_at})
    columns = ("group", "tasks", "scored", "mean reward", *(f"pass@{k}" for k in ks))
    tail = ("solved: never", "sometimes", "always", "tokens out", "failures")
    rows = []
    for group in groups:
        rows.append(_row(group, ks))
        if group.scored < group.requested:
            rows.append(_requested_row(group, ks))
    print_table((*columns, *tail), rows, right=",".join((*columns[1:], *tail[:-1])))
    _show_components(groups)


def _show_components(groups: Sequence[GroupSummary]) -> None:
    """Print the means of the reward's components, one line per group; nothing without any."""
    means = {group.name: group.scores.components for group in groups if group.scores}
    names = sorted({name for components in means.values() for name in components})
    if names:
        print_table(
            ("mean of component", *names),
            [
                (group, *(f"{values[n]:.3f}" if n in values else "-" for n in names))
                for group, values in means.items()
            ],
            right=",".join(names),
        )


def _row(group: GroupSummary, ks: Sequence[int]) -> list[str]:
    """Return the table's row of a group, over its scored rollouts."""
    scores = group.scores
    head = [group.name, str(group.tasks), _scored(group)]
    if scores is None:
        return [*head, *["-"] * (len(ks) + 5), _failures(group)]
    passed = {at.k: _of_tasks(at, scores.tasks) for at in scores.pass_at}
    mean = scores.mean_reward
    interval = "" if mean.low is None else f" [{mean.low:.3f}, {mean.high:.3f}]"
    tokens = scores.mean_output_tokens
    return [
        *head,
        f"{mean.value:.3f}{interval}",
        *(passed.get(k, "-") for k in ks),
        f"{scores.never_solved:.0%}",
        f"{scores.sometimes_solved:.0%}",
        f"{scores.always_solved:.0%}",
        "-" if tokens is None else f"{tokens:.0f}",
        _failures(group),
    ]


def _scored(group: GroupSummary) -> str:
    """Return `380/400`, or with remarkable ends of rollouts `380/400 (12 truncated, 3 %)`."""
    counts = {
        "truncated": group.truncated,
        "empty": group.empty_answers,
        "at the turn limit": group.at_turn_limit,
    }
    marks = [
        f"{count} {what}, {count / group.scored:.0%}" for what, count in counts.items() if count
    ]
    remarks = f" ({'; '.join(marks)})" if marks else ""
    return f"{group.scored}/{group.requested}{remarks}"


def _requested_row(group: GroupSummary, ks: Sequence[int]) -> list[str]:
    """Return the table's row with the range of each number over all requested rollouts."""
    over_requested = group.over_requested
    passed = {at.k: _range(at.value) for at in over_requested.pass_at}
    return [
        "  all requested",
        str(over_requested.tasks),
        str(group.requested),
        _range(over_requested.mean_reward),
        *(passed.get(k, "-") for k in ks),
        *(
            _range(x, ".0%")
            for x in (
                over_requested.never_solved,
                over_requested.sometimes_solved,
                over_requested.always_solved,
            )
        ),
        "",
        "",
    ]


def _range(of: Range, digits: str = ".3f") -> str:
    low, high = f"{of.low:{digits}}", f"{of.high:{digits}}"
    return low if low == high else f"{low}–{high}"  # noqa: RUF001  # a range takes an en dash


def _of_tasks(at: PassAtK, tasks: int) -> str:
    """Return the pass@k value, with the number of tasks when some tasks have fewer than k rollouts."""
    task_note = over_tasks(at.tasks, tasks)
    return f"{at.value:.3f}" + (f" ({task_note})" if task_note else "")


def _failures(group: GroupSummary) -> str:
    parts = [f"{name} {count}" for name, count in sorted(group.failures.items())]
    if group.unaccounted:
        parts.append(f"not ended {group.unaccounted}")
    return ", ".join(parts) or "-"


def _one_plain_file(files: Sequence[Path]) -> Path:
    """Return the only rollouts file, whose rows are sent to the agents as they are.

    Raises InputDataError: there are several files, or the file is compressed.
    """
    if len(files) > 1 or is_compressed(files[0]):
        raise InputDataError(
            "aggregate metrics need exactly one rollouts file, not compressed",
            hint="`palestra merge` merges shards and computes the metrics too; unpack a compressed "
            "file first",
        )
    return files[0]
