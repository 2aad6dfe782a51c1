"""`scores`: print a table of scores as in papers, for one environment, several models and several
seeds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from palestra.analysis import ModelScores, SeedScore, over_tasks
from palestra.api import scores_of_runs
from palestra.cli.console import notice, say, say_json
from palestra.cli.escaping import one_line
from palestra.cli.tables import markdown_table, print_table
from palestra.errors import ConfigError
from palestra.settings import ScoresArgs


@dataclass(frozen=True, slots=True)
class ScoreUnit:
    """A unit in which scores are printed. `scale`: the factor from percent to this unit."""

    name: str
    scale: float
    digits: int

    def shown(self, percent: float) -> str:
        """Return the number in this unit, without the unit's name."""
        return f"{percent * self.scale:.{self.digits}f}"


PERCENT: Final = ScoreUnit("percent", 1.0, 2)
FRACTIONS: Final = ScoreUnit("fractions", 0.01, 4)


def show_scores(args: ScoresArgs) -> int:
    """Score every model over its seeds and print the table."""
    if args.as_json and args.as_markdown:
        raise ConfigError("--json and --markdown cannot be combined")
    if args.as_json and args.fractions:
        raise ConfigError(
            "--json and --fractions cannot be combined: the JSON is always in percent"
        )
    runs = [_label_and_path(run) for run in args.runs]
    scored = scores_of_runs(
        runs,
        k=args.k,
        allow_unmatched=args.allow_unmatched,
        allow_different_rows=args.allow_different_rows,
    )
    for text in scored.notices:
        notice(text)
    models = scored.models
    if args.as_json:
        say_json(scored.to_dict())
        return 0
    unit = FRACTIONS if args.fractions else PERCENT
    columns = _columns(models, scored.k)
    rows = [_row(model, unit, votes=_votes(models)) for model in models]
    if args.as_markdown:
        say(markdown_table(columns, rows))
        say()
    else:
        print_table(columns, rows, right=",".join(columns[1:]))
    for line in _footnotes(models, scored.k, unit):
        say(f"- {line}" if args.as_markdown else line)
    return 0


def _label_and_path(run: str) -> tuple[str, str]:
    """Split `NAME=RUN` into name and path; without a name, the name is empty.

    The path of an existing file is never split at its `=`.
    """
    name, equals, path = run.partition("=")
    if equals and not (name and path) and not Path(run).exists():
        raise ConfigError(f"{run!r} is not NAME=RUN", hint="for example base=runs/base")
    return (name, path) if equals and not Path(run).exists() else ("", run)


def _votes(models: Sequence[ModelScores]) -> bool:
    return any(model.majority is not None for model in models)


def _columns(models: Sequence[ModelScores], k: int) -> list[str]:
    votes = [f"maj@{k}"] if _votes(models) else []
    tail = ["no answer"] if _votes(models) else []
    return ["model", "tasks", "scored", "seeds", "pass@1", *votes, f"pass@{k}", *tail]


def _row(model: ModelScores, unit: ScoreUnit, *, votes: bool) -> list[str]:
    majority = [_cell(model.majority, unit)] if votes else []
    unread = "-" if model.no_answer is None else f"{model.no_answer:.1f}"
    if model.no_answer is not None and unit is FRACTIONS:
        unread = unit.shown(model.no_answer)
    return [
        one_line(model.name),
        str(model.tasks),
        f"{model.scored}/{model.requested}",
        str(model.pass_k.seeds),
        _cell(model.pass_1, unit),
        *majority,
        _cell(model.pass_k, unit),
        *([unread] if votes else []),
    ]


def _cell(score: SeedScore | None, unit: ScoreUnit) -> str:
    if score is None:
        return "-"
    error = "" if score.standard_error is None else f" ± {unit.shown(score.standard_error)}"
    return f"{unit.shown(score.mean)}{error}"


def _footnotes(models: Sequence[ModelScores], k: int, unit: ScoreUnit) -> Iterator[str]:
    yield f"{unit.name}; ± is the standard error over seeds"
    for model in models:
        if model.cut:
            yield (
                f"{model.name}: seeds are parts of {len(model.runs)} run(s): ± of pass@1 is over "
                f"up to {model.pass_1.seeds} rollouts of each task, of the others over "
                f"{model.pass_k.seeds} block(s) of {k}"
                + (f"; {model.left_over} left over" if model.left_over else "")
            )
            if _uneven(model):
                yield f"{model.name}: no ± where its seeds do not hold the same tasks"
        if model.majority is None:
            yield f"{model.name}: no maj@{k}, its rows have no extracted_answer"
        if task_note := over_tasks(model.pass_k.tasks, model.pass_1.tasks):
            yield f"{model.name}: pass@{k} is {task_note}, those with {k} scored rollouts"
        if model.scored < model.requested:
            yield _missing(model, k, unit)


def _uneven(model: ModelScores) -> bool:
    """Whether a score has several seeds but no standard error over them."""
    scores = (model.pass_1, model.pass_k, model.majority)
    return any(score and score.seeds > 1 and score.standard_error is None for score in scores)


def _missing(model: ModelScores, k: int, unit: ScoreUnit) -> str:
    metrics = [("pass@1", model.pass_1), (f"pass@{k}", model.pass_k)]
    if model.majority is not None:
        metrics.insert(1, (f"maj@{k}", model.majority))
    bounds = ", ".join(
        f"{name} {unit.shown(score.low)} .. {unit.shown(score.high)}" for name, score in metrics
    )
    lost = [f"{name} {count}" for name, count in sorted(model.failures.items())]
    never = model.requested - model.scored - sum(model.failures.values())
    causes = ", ".join([*lost, *([f"never ended {never}"] if never > 0 else [])])
    return (
        f"{model.name}: scores are of what was scored; over all requested rollouts, whatever the "
        f"missing ones ({causes}) would have scored: {bounds}"
    )
