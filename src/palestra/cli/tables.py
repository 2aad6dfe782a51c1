"""Tables for people. Plain text when the output is not a terminal, so that it can be searched."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from palestra.cli.escaping import one_line


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "", right: str = ""
) -> None:
    """Print rows under `columns`; those named in `right` (space separated) align right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, pad_edge=False)
    for column in columns:
        table.add_column(
            column, justify="right" if column in right.split(",") else "left", overflow="fold"
        )
    for row in rows:
        # As Text: names like `pass@1[avg-of-4]` would be read as markup.
        # And visibly: they come from data.
        table.add_row(*(Text(one_line(str(cell))) for cell in row))
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    if title:
        console.print(Text(one_line(title)))
    console.print(table)


def print_key_metrics(entries: Iterable[Mapping[str, Any]]) -> None:
    """The few numbers that each agent's environment shows first, of its aggregate metrics."""
    for entry in entries:
        numbers = {k: v for k, v in entry["key_metrics"].items() if isinstance(v, int | float)}
        print_table(
            ("key metric", "value"),
            [(name, f"{value:.4g}") for name, value in numbers.items()],
            title=entry["agent_ref"]["name"],
            right="value",
        )
