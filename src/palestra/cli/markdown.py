"""Tables as Markdown, for pull requests and reports."""

from collections.abc import Iterable, Sequence

from palestra.cli.escaping import one_line


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with the first column to the left and the others, numbers, to the right."""
    rule = [":--", *["--:"] * (len(columns) - 1)]
    lines = [columns, rule, *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: str) -> str:
    return one_line(text).replace("\\", "\\\\").replace("|", "\\|") if text else " "
