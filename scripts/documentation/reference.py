"""Pages that are made from the code: commands, settings, files of a run, and the Python API."""

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel

import palestra.cli.main
import palestra.settings
from palestra.config import Flag
from palestra.schema import RunPaths

FOLDER = Path("reference")
API = {
    "palestra": "What the author of an environment imports.",
    "palestra.testing": "What tests of an environment are made of.",
    "palestra.api": "What the commands do, as functions that return values.",
    "palestra.training": "Rollouts for a trainer.",
    "palestra.metrics": "What environments report of repeated attempts.",
    "palestra.cluster": "Rollouts over many jobs.",
}
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def generated_pages() -> dict[Path, str]:
    """Place in the site -> text."""
    pages = {FOLDER / "settings.md": _settings(), FOLDER / "files.md": _files()}
    app = next(
        value for value in vars(palestra.cli.main).values() if isinstance(value, typer.Typer)
    )
    for words, command in _commands(typer.main.get_command(app), ["palestra"]):
        name = "-".join(words[1:])
        pages[FOLDER / "commands" / f"{name}.md"] = _command(words, command)
    for module, purpose in API.items():
        name = module.partition(".")[2] or module
        pages[FOLDER / "python" / f"{name}.md"] = _module(module, purpose)
    return pages


def _commands(command: Any, words: list[str]) -> Iterator[tuple[list[str], Any]]:
    for name, child in getattr(command, "commands", {}).items():
        if getattr(child, "hidden", False):
            continue
        if hasattr(child, "commands"):
            yield from _commands(child, [*words, name])
        else:
            yield [*words, name], child


def _command(words: list[str], command: Any) -> str:
    arguments = [item for item in command.params if not item.opts[0].startswith("-")]
    usage = " ".join([*words, *(_argument(item) for item in arguments), "[OPTIONS]"])
    parts = [f"# {' '.join(words)}\n", f"{command.help or ''}\n", f"```text\n{usage}\n```\n"]
    for title, items in (
        ("argument", arguments),
        ("option", [item for item in command.params if item not in arguments]),
    ):
        rows = [_row(_flags(item), _default(item), item.help or "") for item in items]
        if rows:
            parts.append("\n".join([_row(title, "default", "meaning"), "|---|---|---|", *rows, ""]))
    return "\n".join(parts)


def _argument(item: Any) -> str:
    name = item.metavar or item.name.upper()
    return name if item.required else f"[{name}]"


def _flags(item: Any) -> str:
    if not item.opts[0].startswith("-"):
        return f"`{item.metavar or item.name.upper()}`"
    flags = ", ".join(f"`{flag}`" for flag in [*item.opts, *item.secondary_opts])
    return flags if item.is_flag or not item.metavar else f"{flags} {item.metavar}"


def _default(item: Any) -> str:
    if item.required:
        return "required"
    is_unset = item.default is None or item.default is False or callable(item.default)
    return "" if is_unset else f"`{item.default}`"


def _row(*cells: str) -> str:
    texts = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(texts)} |"


def _settings() -> str:
    """Every setting of a command that is a flag or an override: its name, type, default, meaning."""
    parts = [
        "# Settings\n",
        (
            "A setting is given as a flag of `palestra`, as `name: value` in `env.yaml` or a config file,"
            " or as `+name=value` on the command line. Each section is what one command takes.\n"
        ),
    ]
    for name in palestra.settings.__all__:
        model = getattr(palestra.settings, name)
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            continue
        rows = [
            _row(f"`{field}`", _flag(field, info), _type(info.annotation), _value(info), meaning)
            for field, info in model.model_fields.items()
            if (meaning := info.description)
        ]
        if rows:
            head = [_row("setting", "flag", "type", "default", "meaning"), "|---|---|---|---|---|"]
            summary = inspect.getdoc(model) or ""
            parts.append("\n".join([f"## {name}\n", f"{summary}\n", *head, *rows, ""]))
    return "\n".join(parts)


def _flag(field: str, info: Any) -> str:
    marks = [item for item in info.metadata if isinstance(item, Flag)]
    if marks and marks[0].argument:
        return ""
    names = marks[0].names if marks and marks[0].names else (f"--{field.replace('_', '-')}",)
    return ", ".join(f"`{name}`" for name in names)


def _type(annotation: Any) -> str:
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    return f"`{re.sub(r'(typing|pathlib|palestra[a-z_.]*)[.]', '', text)}`"


def _value(info: Any) -> str:
    if info.is_required():
        return "required"
    return "" if info.default in (None, False, ()) else f"`{info.default}`"


def _files() -> str:
    """The files of one run, from the class that names them."""
    paths = RunPaths(Path("rollouts.jsonl"))
    rows = [_row("`rollouts.jsonl`", "The scored rows, in the order in which rollouts ended.")]
    for name, member in vars(RunPaths).items():
        if isinstance(member, property):
            path = getattr(paths, name)
            if isinstance(path, Path):
                rows.append(_row(f"`{path}`", inspect.getdoc(member) or ""))
    return "\n".join(
        [
            "# Files of a run\n",
            (
                "Every name follows from the output's, here `rollouts.jsonl`. Files whose names hold the"
                " word `new` or `partial` exist only while a command works.\n"
            ),
            _row("file", "what is in it"),
            "|---|---|",
            *rows,
            "",
        ]
    )


def _module(name: str, purpose: str) -> str:
    module = importlib.import_module(name)
    members = [(item, getattr(module, item)) for item in module.__all__ if not item.startswith("_")]
    parts = [f"# {name}\n", f"{purpose}\n"]
    parts += [_member(item, value) for item, value in members if _is_documented(value)]
    return "\n".join(parts)


def _is_documented(value: Any) -> bool:
    return (inspect.isclass(value) or inspect.isroutine(value)) and bool(inspect.getdoc(value))


def _member(name: str, value: Any) -> str:
    parts = [f"## {name}\n", _signature(name, value), f"{inspect.getdoc(value)}\n"]
    if inspect.isclass(value) and not issubclass(value, BaseException):
        for inner, method in vars(value).items():
            if inspect.isfunction(method) and not inner.startswith("_") and method.__doc__:
                parts += [f"### {name}.{inner}\n", _signature(inner, method)]
                parts.append(f"{inspect.getdoc(method)}\n")
    return "\n".join(parts)


def _signature(name: str, value: Any) -> str:
    try:
        text = _ADDRESS.sub("", str(inspect.signature(value)))
    except (TypeError, ValueError):
        return ""
    return f"```text\n{name}{text}\n```\n"
