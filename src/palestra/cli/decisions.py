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


def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="Rollouts of the run to beat.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Rollouts of the other run.")],
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
