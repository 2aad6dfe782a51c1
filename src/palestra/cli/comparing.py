"""`compare`: compare two runs task by task; print a table, Markdown, or JSON."""

import shlex
from collections.abc import Iterator, Sequence

from palestra.analysis import (
    Comparison,
    Estimate,
    MetricComparison,
    Regression,
    RegressionGate,
    RunCounts,
    judge_comparison,
)
from palestra.api import comparison_of_runs
from palestra.cli.console import notice, say, say_json
from palestra.cli.escaping import one_line
from palestra.cli.tables import markdown_table, print_table
from palestra.errors import ConfigError
from palestra.settings import CompareArgs

GATE_FAILED = 1
_P = "mid-p"
"""The name of the p-value: of a sign-flip test that counts patterns as far as the result half."""
_METRICS = ("metric", "tasks", "A", "B", "B - A", "95 % interval", _P, f"{_P} (Holm)", "detectable")
_BOUNDS = ("metric", "tasks", "A", "B", "B - A at worst", "B - A at best")
_REGRESSIONS = ("task of A", "A", "B", "change", "rollouts A", "rollouts B")


def compare_runs(args: CompareArgs) -> int:
    """Compare two runs and print the result. Exit 1 when the user set --gate and it fails, else 0."""
    _check(args)
    comparison = comparison_of_runs(
        args.a,
        args.b,
        metrics=args.metrics,
        allow_unmatched=args.allow_unmatched,
        allow_different_rows=args.allow_different_rows,
    )
    gate = None
    if args.gate:
        gate = judge_comparison(
            comparison, tolerance=args.tolerance or 0.0, scored_only=args.scored_only
        )
    for text in comparison.notices:
        notice(text)
    if args.as_json:
        say_json({**comparison.to_dict(), "gate": gate})
    else:
        _show(comparison, gate, markdown=args.as_markdown)
    return GATE_FAILED if gate is not None and not gate.passed else 0


def verdict(reward: MetricComparison) -> str:
    """Return the result for the reward, in one sentence."""
    change = reward.difference.value
    interval = "" if reward.difference.low is None else f" {_interval(reward.difference, 4)}"
    numbers = f"reward {change:+.4f}{interval}, {_p_value(reward.p_value, _P)}."
    if reward.conclusion:
        doubt = f" {reward.doubt[0].upper()}{reward.doubt[1:]}." if reward.doubt else ""
        return f"B is {reward.conclusion} than A: {numbers}{doubt}"
    sentence = f"No difference shown: {numbers}"
    if reward.minimum_detectable is None:
        return sentence
    return (
        f"{sentence} A true difference of {reward.minimum_detectable:.4f} would be found in 80 % of "
        "such comparisons; smaller ones more rarely."
    )


def _check(args: CompareArgs) -> None:
    if args.as_json and args.as_markdown:
        raise ConfigError("--json and --markdown cannot be combined")
    if not args.gate and (args.tolerance is not None or args.scored_only):
        raise ConfigError("--tolerance and --scored-only only affect --gate: add --gate")
    if args.tolerance is not None and not args.tolerance >= 0:
        raise ConfigError(f"--tolerance must be a number of 0 or more, got {args.tolerance}")


def _show(comparison: Comparison, gate: RegressionGate | None, *, markdown: bool) -> None:
    for line in _head(comparison):
        say(f"- {line}" if markdown else line)
    for title, columns, rows in _tables(comparison):
        if markdown:
            say(f"\n**{title}**\n\n{markdown_table(columns, rows)}")
        else:
            print_table(columns, rows, title=title, right=",".join(columns[1:]))
    for line in _tail(comparison, gate):
        say(f"\n{line}" if markdown else line)


def _tables(comparison: Comparison) -> Iterator[tuple[str, Sequence[str], list[list[str]]]]:
    """Yield title, columns and rows of each table that is not empty."""
    yield "scored rollouts", _METRICS, [_metric_row(metric) for metric in comparison.metrics]
    if any(metric.requested for metric in comparison.metrics):
        title = "all requested rollouts: between the worst and the best that is missing"
        yield title, _BOUNDS, [_bounds_row(metric) for metric in comparison.metrics]
    if comparison.regressions:
        title = f"largest regressions, of {comparison.worse} tasks with a lower reward in B"
        yield title, _REGRESSIONS, [_regression_row(task) for task in comparison.regressions]


def _head(comparison: Comparison) -> Iterator[str]:
    for name, run in (("A", comparison.a), ("B", comparison.b)):
        yield f"{name}: {run.rollouts}: {_counts(run)}"
    unscored = (
        f", {comparison.unscored} of them without a score in one run" if comparison.unscored else ""
    )
    yield (
        f"{comparison.tasks} tasks paired{unscored}; reward higher in B for {comparison.better}, lower for "
        f"{comparison.worse}, equal for {comparison.equal}"
    )
    if comparison.settings:
        yield f"sampled differently: {'; '.join(comparison.settings)}"


def _counts(run: RunCounts) -> str:
    counts = f"{run.tasks} tasks, {run.scored} of {run.requested} rollouts scored"
    lost = [f"{name} {count}" for name, count in sorted(run.failures.items())]
    if run.unaccounted:
        lost.append(f"never ended {run.unaccounted}")
    return f"{counts} ({', '.join(lost)})" if lost else counts


def _tail(comparison: Comparison, gate: RegressionGate | None) -> Iterator[str]:
    if comparison.regressions:
        run, task = (
            shlex.quote(str(it)) for it in (comparison.a.rollouts, _first_task(comparison))
        )
        yield f"the largest regression, as A answered: palestra show {run} {task}"
    yield verdict(comparison.reward)
    for metric in comparison.metrics:
        if metric.mcnemar is not None:
            test = metric.mcnemar
            yield (
                f"McNemar, {metric.name}: {test.only_a} tasks solved only by A, {test.only_b} only "
                f"by B, exact {_p_value(test.p_value)}."
            )
    if gate is not None:
        yield f"gate: {'passed' if gate.passed else 'failed'}: {gate.reason}"


def _first_task(comparison: Comparison) -> str:
    """Return the first rollout of the task that fell most, as `palestra show` takes it."""
    return f"{comparison.regressions[0].task}:0"


def _metric_row(metric: MetricComparison) -> list[str]:
    decimals = _decimals(metric)
    least = metric.minimum_detectable
    return [
        one_line(metric.name),
        str(metric.tasks),
        f"{metric.a:.{decimals}f}",
        f"{metric.b:.{decimals}f}",
        f"{metric.difference.value:+.{decimals}f}",
        _interval(metric.difference, decimals),
        _p(metric.p_value),
        _p(metric.p_adjusted),
        "-" if least is None else f"{least:.{decimals}f}",
    ]


def _bounds_row(metric: MetricComparison) -> list[str]:
    decimals, requested = _decimals(metric), metric.requested
    if requested is None:
        return [one_line(metric.name), str(metric.tasks), *["nothing missing"] * 2, "-", "-"]
    runs = [
        f"{low:.{decimals}f} .. {high:.{decimals}f}" for low, high in (requested.a, requested.b)
    ]
    ends = [
        f"{end.value:+.{decimals}f} {_interval(end, decimals)}"
        for end in (requested.lowest, requested.highest)
    ]
    return [one_line(metric.name), str(requested.tasks), *runs, *ends]


def _regression_row(task: Regression) -> list[str]:
    return [
        one_line(str(task.task)),
        f"{task.a:.3f}",
        f"{task.b:.3f}",
        f"{task.change:+.3f}",
        str(task.a_rollouts),
        str(task.b_rollouts),
    ]


def _decimals(metric: MetricComparison) -> int:
    """Return how many decimals to print: four for small numbers such as rewards, one from 10 on."""
    return 4 if max(abs(metric.a), abs(metric.b)) < 10 else 1


def _interval(estimate: Estimate, decimals: int) -> str:
    if estimate.low is None or estimate.high is None:
        return "-"
    return f"[{estimate.low:+.{decimals}f}, {estimate.high:+.{decimals}f}]"


def _p(value: float) -> str:
    return f"{value:.4f}" if value >= 0.0001 else "< 0.0001"


def _p_value(value: float, name: str = "p") -> str:
    return f"{name} = {_p(value)}" if value >= 0.0001 else f"{name} {_p(value)}"
