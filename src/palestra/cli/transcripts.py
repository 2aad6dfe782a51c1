"""Prints a conversation on the terminal: prompts, answers, calls and results."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.text import Text

from palestra.analysis import Entry
from palestra.cli.escaping import one_line, visible
from palestra.cli.tables import plain_console


def print_heading(text: str) -> None:
    """Print a heading, after an empty line."""
    console = plain_console()
    console.print()
    console.print(Text(one_line(text), style="bold"), soft_wrap=True)


def print_entries(entries: Iterable[Entry]) -> None:
    """Print each entry: its role or the tool's name, then its whole text, indented."""
    console = plain_console()
    for entry in entries:
        head = f"{entry.kind} {entry.name}".strip()
        console.print(Text(f"[{one_line(head)}]", style="bold"), soft_wrap=True)
        lines = visible(_readable(entry)).splitlines() or ["(empty)"]
        for line in lines:
            console.print(Text(f"  {line}"), soft_wrap=True)


def _readable(entry: Entry) -> str:
    """Return the text of an entry. The arguments of a call are on one line."""
    if entry.kind != "call":
        return entry.text
    try:
        return json.dumps(json.loads(entry.text), ensure_ascii=False)
    except ValueError:
        return entry.text


def print_tools(tools: Sequence[Mapping[str, Any]]) -> None:
    """Print the tools that are offered to the model, one line each."""
    console = plain_console()
    for tool in tools:
        parameters = tool.get("parameters")
        properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
        names = ", ".join(map(str, properties)) if isinstance(properties, Mapping) else ""
        description = str(tool.get("description") or "").partition("\n")[0]
        line = f"  {tool.get('name') or tool.get('type')}({names})"
        text = f"{line}: {description}" if description else line
        console.print(Text(one_line(text)), soft_wrap=True)


def print_fields(fields: Mapping[str, Any]) -> None:
    """Print names and values, one line each; nested values as JSON."""
    console = plain_console()
    for name, value in fields.items():
        is_plain = isinstance(value, str)
        text = value if is_plain else json.dumps(value, ensure_ascii=False, default=str)
        console.print(Text(f"  {one_line(name)}: {one_line(text)}"), soft_wrap=True)
