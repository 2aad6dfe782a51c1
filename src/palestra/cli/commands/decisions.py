"""The commands that turn profiles into decisions: `compare`, `select`, `scores`."""

from pathlib import Path
from typing import Annotated

import typer

from palestra.cli.console import guarded

AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]
AsMarkdown = Annotated[bool, typer.Option("--markdown", help="As Markdown.")]
AllowUnmatched = Annotated[
    bool,
    typer.Option("--allow-unmatched", help="Leave out tasks that the runs do not share."),
]


def register(app: typer.Typer) -> None:
    """Add the commands to `palestra`."""
    app.command()(compare)
    app.command()(select)
    app.command()(scores)


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="Rollouts of the run to beat.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Rollouts of the other run.")],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", "-m", help="Besides the reward: a numeric field, or pass@K; repeatable."
        ),
    ] = None,
    allow_unmatched: AllowUnmatched = False,
    allow_different_rows: Annotated[
        bool,
        typer.Option(
            "--allow-different-rows", help="Pair tasks by index although their rows differ."
        ),
    ] = False,
    gate: Annotated[
        bool,
        typer.Option("--gate", help="Exit 1 when B is significantly worse than A."),
    ] = False,
    tolerance: Annotated[
        float | None, typer.Option(help="With --gate: by more than so much reward; default 0.")
    ] = None,
    scored_only: Annotated[
        bool,
        typer.Option("--scored-only", help="With --gate: whatever missing rollouts could hide."),
    ] = False,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
) -> None:
    """Whether run B beats run A, task by task: interval, test, regressions, what is missing.

    The materialized inputs and the failures of a run are found by name beside its rollouts.
    """

    def command() -> int:
        from palestra.cli.comparing import CompareArgs, compare_runs

        return compare_runs(
            CompareArgs(
                a=a,
                b=b,
                metrics=tuple(metric or ()),
                allow_unmatched=allow_unmatched,
                allow_different_rows=allow_different_rows,
                gate=gate,
                tolerance=tolerance,
                scored_only=scored_only,
                as_json=as_json,
                as_markdown=as_markdown,
            )
        )

    guarded(command)


def select(
    rollouts: Annotated[str, typer.Argument(metavar="ROLLOUTS", help="Scored rows of a run.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Where the kept tasks go (.jsonl); without it, a preview."
        ),
    ] = None,
    band: Annotated[
        str | None, typer.Option(help="Pass rates to keep, both ends included: 0.1..0.9.")
    ] = None,
    min_rollouts: Annotated[
        int, typer.Option(min=1, help="Scored rollouts that a task must have.")
    ] = 1,
    max_tokens: Annotated[
        float | None, typer.Option(min=0, help="Mean output tokens that its rollouts may take.")
    ] = None,
    learnability: Annotated[
        bool,
        typer.Option("--learnability", help="Most learnable first: p(1 - p), p the pass rate."),
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Keep at most so many.")] = None,
    decided_only: Annotated[
        bool,
        typer.Option(
            "--decided-only", help="Only where the interval of the pass rate is inside the band."
        ),
    ] = False,
    solved_at: Annotated[
        float, typer.Option(help="From this reward on a rollout solved its task.")
    ] = 1.0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what is at --out.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Export tasks that are neither too easy nor too hard, as a dataset to collect again.

    Rollouts without a reward never count as difficulty. Beside the output, a provenance file says
    for every row where it comes from and how sure its pass rate is.
    """

    def command() -> int:
        from palestra.cli.selecting import SelectArgs, select_tasks

        return select_tasks(
            SelectArgs(
                rollouts=rollouts,
                out=out,
                band=band,
                min_rollouts=min_rollouts,
                max_tokens=max_tokens,
                solved_at=solved_at,
                learnability=learnability,
                decided_only=decided_only,
                limit=limit,
                overwrite=overwrite,
                as_json=as_json,
            )
        )

    guarded(command)


def scores(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]RUN...",
            help="Rollouts of runs over the same tasks; runs of one name are its seeds. Without a "
            "name: the model that the rollouts name.",
        ),
    ],
    k: Annotated[int, typer.Option("--k", min=1, help="Attempts of pass@k and maj@k.")] = 4,
    allow_unmatched: AllowUnmatched = False,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
    fractions: Annotated[
        bool, typer.Option("--fractions", help="Parts of 1 (0.9000) and not percent.")
    ] = False,
) -> None:
    """The table of the field: pass@1, maj@k, pass@k in percent, mean ± error over seeds."""

    def command() -> int:
        from palestra.cli.scoring import ScoresArgs, show_scores

        return show_scores(
            ScoresArgs(
                runs=tuple(runs),
                k=k,
                allow_unmatched=allow_unmatched,
                as_json=as_json,
                as_markdown=as_markdown,
                fractions=fractions,
            )
        )

    guarded(command)
