"""Tables for people; plain text when the output is not a terminal, so that it can be searched.

A number is never broken. A table that is too wide for the terminal first wraps its texts between
words, then leaves out its spare columns, and at last prints each row as a block of lines.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from palestra.cli.console import is_plain, say
from palestra.cli.escaping import one_line
from palestra.schema import ATTEMPT_INDEX, PREVIOUS_REWARD, read_jsonl

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PIPED_WIDTH: Final = 200
"""The width at which texts wrap when the output is not a terminal. No column is left out then."""
MOST_MESSAGES: Final = 5
"""The number of messages that are shown of a failure class."""
_EDGES, _GAP = 2, 3
"""What the lines of a table hold besides its cells."""
_NARROWEST_TEXT: Final = 16
"""The smallest width of a column of texts. Below it, nearly every word would be on its own line."""
_INDENT: Final = 2
_NOT_EARNED: Final = frozenset({ATTEMPT_INDEX, PREVIOUS_REWARD})
"""Numbers that a run notes in its rows: they say nothing of the model."""
_NARROWEST_VALUE: Final = 12


@dataclass(frozen=True, slots=True)
class _Column:
    """One column: its name, and its cells as printed."""

    name: str
    cells: Sequence[str]
    numeric: bool

    @property
    def natural(self) -> int:
        """The width at which nothing is wrapped."""
        return max(map(_width, (self.name, *self.cells)), default=0)

    @property
    def least(self) -> int:
        """The width at which no word and no number is broken."""
        head = max(map(_width, self.name.split() or [""]))
        if self.numeric:
            return max(head, *map(_width, self.cells), 0)
        words = (word for cell in self.cells for word in cell.split())
        return max(head, *map(_width, words), min(self.natural, _NARROWEST_TEXT), 0)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    title: str = "",
    right: str = "",
    spare: str = "",
) -> None:
    """Print rows under `columns`. `right`: the columns with numbers, separated by commas.

    `spare`: the columns to leave out where the terminal is too narrow, the first one first.
    """
    from rich.text import Text

    table_columns = _columns(columns, rows, right.split(","))
    console = plain_console()
    if not console.is_terminal:
        console.width = max(PIPED_WIDTH, _total([column.least for column in table_columns]))
    if title:
        console.print(Text(one_line(title)))
    for part in _fitted(table_columns, console.width, [name for name in spare.split(",") if name]):
        console.print(part)


def plain_console() -> "Console":
    """Return a console for standard output. It writes no colours and no bold text when `NO_COLOR` is
    set, or the terminal cannot show them.
    """
    from rich.console import Console

    if is_plain():
        return Console(color_system=None, highlight=False)
    return Console(highlight=False)


def print_lines_or_blocks(
    lines: Sequence[str], columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
    """Print `lines`; when one is wider than the terminal, print each row as a block instead."""
    console = plain_console()
    widest = max((_width(part) for line in lines for part in line.splitlines()), default=0)
    if not console.is_terminal or widest <= console.width:
        for line in lines:
            say(line)
        return
    for part in _turned(_columns(columns, rows, ()), console.width):
        console.print(part)


def _columns(
    names: Sequence[str], rows: Iterable[Sequence[Any]], numeric: Sequence[str]
) -> list[_Column]:
    # Visibly: cells come from data.
    cells = [[one_line(str(cell)) for cell in row] for row in rows]
    return [
        _Column(name, [row[index] for row in cells], name in numeric)
        for index, name in enumerate(names)
    ]


def _fitted(columns: list[_Column], width: int, spare: Sequence[str]) -> Iterable["RenderableType"]:
    from rich.text import Text

    kept_columns = list(columns)
    left_out: list[str] = []
    for name in spare:
        if _fits(kept_columns, width):
            break
        kept_columns = [column for column in kept_columns if column.name != name]
        left_out.append(name)
    if not _fits(kept_columns, width):
        yield from _turned(columns, width)
        return
    yield _table(kept_columns, width)
    if left_out:
        yield Text(f"not shown at {width} columns: {', '.join(left_out)}")


def _fits(columns: Sequence[_Column], width: int) -> bool:
    return _total([column.least for column in columns]) <= width


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _EDGES + _GAP * max(0, len(widths) - 1)


def _table(columns: Sequence[_Column], width: int) -> "RenderableType":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, pad_edge=False)
    for column, wide in zip(columns, _widths(columns, width), strict=True):
        justify: Literal["left", "right"] = "right" if column.numeric else "left"
        table.add_column(column.name, justify=justify, overflow="fold", width=wide)
    for row in zip(*(column.cells for column in columns), strict=True):
        # As Text: names like `pass@1[avg-of-4]` would be read as markup.
        table.add_row(*map(Text, row))
    return table


def _widths(columns: Sequence[_Column], width: int) -> list[int]:
    """Return the natural widths, with the widest columns made narrower until all fit."""
    widths = [column.natural for column in columns]
    least = [column.least for column in columns]
    while _total(widths) > width:
        reducible = [index for index, wide in enumerate(widths) if wide > least[index]]
        if not reducible:
            break
        widest = max(reducible, key=lambda index: widths[index])
        widths[widest] -= 1
    return widths


def _turned(columns: Sequence[_Column], width: int) -> Iterable["RenderableType"]:
    """Yield one block per row: the first cell as a title, then one line for each other cell."""
    from rich.table import Table
    from rich.text import Text

    first, *others = columns
    names = max((_width(column.name) for column in others), default=0)
    for index, cell in enumerate(first.cells):
        yield Text(f"{first.name} {cell.strip()}".strip(), style="bold", overflow="fold")
        block = Table.grid(padding=(0, 2, 0, 0))
        value_width = max(_NARROWEST_VALUE, width - _INDENT - names - 2)
        block.add_column(width=0)
        block.add_column(width=names)
        block.add_column(width=value_width, overflow="fold")
        for column in others:
            if column.cells[index]:
                block.add_row("", Text(column.name), Text(column.cells[index]))
        yield block


def _width(text: str) -> int:
    """Return how many columns of a terminal `text` takes."""
    from rich.cells import cell_len

    return cell_len(text)


def print_key_metrics(entries: Iterable[Mapping[str, Any]], inputs: Path) -> None:
    """Print the key metrics of each agent, which its environment selects from the aggregate
    metrics.

    `inputs`: the materialized inputs of the run. Means of their fields are left out: they are of
    ids and labels of the tasks, not of what the rollouts earned. So are means of `_NOT_EARNED`.
    """
    others = {name for name in _fields_of(inputs) if name != "reward"} | _NOT_EARNED
    left_out = {f"mean/{name}" for name in others}
    for entry in entries:
        numbers = {
            name: value
            for name, value in entry["key_metrics"].items()
            if isinstance(value, int | float) and name not in left_out
        }
        print_table(
            ("key metric", "value"),
            [(name, f"{value:.4g}") for name, value in numbers.items()],
            title=entry["agent_ref"]["name"],
            right="value",
        )


def _fields_of(inputs: Path) -> Iterable[str]:
    """Return the fields of the first row; none without the file, as with rows of other tools."""
    lines = read_jsonl(inputs) if inputs.is_file() else iter(())
    return next((line.row for line in lines), {})


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table. The first column is aligned left; the others hold numbers, aligned
    right.
    """
    rule = [":--", *["--:"] * (len(columns) - 1)]
    lines = [columns, rule, *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: str) -> str:
    return one_line(text).replace("\\", "\\\\").replace("|", "\\|") if text else " "
