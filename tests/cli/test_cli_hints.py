"""Every hint of the source can be pasted: its flags and overrides are those of the program that prints it."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

import palestra
from palestra.cli.main import app
from palestra.config import RESERVED_KEYS
from palestra.programs import COMMANDS, with_commands_of
from palestra.settings import COMMAND_SETTINGS

SOURCE = Path(palestra.__file__).parent
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
OVERRIDE = re.compile(r"(?<![\w+])\+{1,2}([a-z_]\w*)[\w.]*=")
COMMAND = re.compile(r"\b(?:palestra|gym|ng) [a-z]|\bns run_cmd|\bpalestra-")
FOREIGN = frozenset(
    {
        "--artifacts-destination",  # of mlflow
        *("--help", "--json"),  # of every program
        *("--head", "--address"),  # of ray
        *(
            "--signal",
            "--array",
            "--mem",
            "--time",
            "--exclude",
            "--kill-on-invalid-dep",
            "--export",
            "--dependency",
        ),  # of Slurm
        *("--shm-size", "--ipc"),  # of docker
        *("--enable-auto-tool-choice", "--tool-call-parser", "--reasoning-parser"),  # of vLLM
        *("--gpu-memory-utilization", "--max-model-len", "--tensor-parallel-size"),
        "--structured-outputs-config",
    }
)
"""The flags in hints that are of programs of others."""
SETTINGS_OF_CONFIGS = ("policy_base_url", "policy_api_key", "policy_model_name")
"""The settings that config files of model servers refer to."""

ONLY_PALESTRA = (
    "analysis/comparison", "analysis/report", "analysis/seeds", "analysis/selection",
    "api/component_details.py", "api/environment", "api/evaluation.py", "api/unfinished_runs.py",
    "cli/commands", "cli/clustering", "cli/comparing.py", "cli/completing.py", "cli/examples.py",
    "cli/importing.py", "cli/ns.py", "cli/progress.py", "cli/reverifying.py", "cli/rollout_service.py", "cli/scaffolding.py",
    "cli/scoring.py", "cli/selecting.py", "cli/serving.py", "cli/showing.py", "cli/tool_schemas.py",
    "cli/usage.py", "cli/view_text.py", "cli/viewing.py", "cli/listing.py", "cluster", "conformance", "datasets/importing",
    "responses_api_models/local_servers", "settings/cluster.py", "settings/environments.py",
    "settings/runs.py", "settings/seeds.py", "settings/servers.py", "settings/viewing.py",
    "testing", "training/service", "viewer", "api/reverification.py", "rollouts/reverification",
)  # fmt: skip
"""What only commands of `palestra` print. Nobody reads it who calls another program."""
OTHER_PROGRAMS = (
    "cli/gym", "cli/ng.py",
    "authoring/component_scaffold.py", "authoring/components.py", "authoring/mirrors.py",
)  # fmt: skip
"""What only the other programs print, in their own words."""
NO_HINTS = ("causes/signatures.py", "cli/completing.py")
"""The text of a document, and scripts for shells."""
ONLY_WITH_THE_FLAG = {"--no-serve", "--record", "--host", "--port", "--set", "--map", "--answer"}
"""The flags in messages that nobody reads who did not type the flag, or a command that only `palestra`
has."""
PLACEHOLDERS = ("key", "name")


def strings_of(path: Path) -> Iterator[str]:
    """Yield the texts of a module without its docstrings. What a text puts in is `X`."""
    tree = ast.parse(path.read_text())
    skipped = {
        id(part)
        for node in ast.walk(tree)
        for part in (
            [s.value for s in getattr(node, "body", ()) if isinstance(s, ast.Expr)]
            if isinstance(getattr(node, "body", None), list)
            else getattr(node, "values", ())
            if isinstance(node, ast.JoinedStr)
            else ()
        )
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(v.value if isinstance(v, ast.Constant) else "X" for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@cache
def hints() -> tuple[tuple[str, str], ...]:
    """Return the sentences with a flag or an override, each with its file."""
    signatures = tomllib.loads((SOURCE / "causes/signatures.toml").read_text())
    texts = [
        ("causes/signatures.toml", entry.get(field, ""))
        for entry in (*signatures["signature"], *signatures["any_layer"])
        for field in ("do", "then", "why")
    ]
    texts += [
        (path.relative_to(SOURCE).as_posix(), text)
        for path in sorted(SOURCE.rglob("*.py"))
        if "tests" not in path.parts
        for text in strings_of(path)
    ]
    return tuple(
        (file, text)
        for file, text in texts
        if (FLAG.search(text) or OVERRIDE.search(text)) and file not in NO_HINTS
        if file.endswith(".toml") or (len(text.split()) > 2 and not text.startswith(("#", "^")))
    )


@cache
def flags_of_palestra() -> dict[str, frozenset[str]]:
    def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
        for name, command in group.commands.items():
            yield f"{before}{name}", command
            if hasattr(command, "commands"):
                yield from commands(command, f"{before}{name} ")

    flags = {
        f"palestra {name}": frozenset(
            flag for p in command.params for flag in (*p.opts, *p.secondary_opts)
        )
        for name, command in commands(typer.main.get_command(app))
    }
    return {**flags, "palestra doctor": flags["palestra doctor check"]}


@cache
def flags_of_gym() -> dict[str, frozenset[str]]:
    return {
        f"gym {command.words}": frozenset(
            (*(name for flag in command.flags for name in flag.names), "--json", "--search-dir")
        )
        for command in COMMANDS
    }


def shared_hints() -> Iterator[str]:
    """Yield the hints that users of each program may read."""
    for file, text in hints():
        if not file.startswith((*ONLY_PALESTRA, *OTHER_PROGRAMS)):
            yield text


def commands_in(text: str) -> tuple[list[str], str]:
    """Return the commands in a hint, and the rest of it."""
    parts = text.split("`")
    clauses = [clause for part in parts[::2] for clause in re.split("; |\n", part)]
    commands = [part for part in parts[1::2] if COMMAND.match(part)]
    commands += [clause[match.start() :] for clause in clauses if (match := COMMAND.search(clause))]
    options = [part for part in parts[1::2] if part.startswith(("--", "+"))]
    return commands, " ".join((*options, *(c for c in clauses if not COMMAND.search(c))))


def unknown_flags_of(command: str) -> set[str]:
    """Return the flags of a command of `palestra` or `gym` that it does not have."""
    flags = {**flags_of_palestra(), **flags_of_gym()}
    name = max((n for n in flags if f"{command} ".startswith(f"{n} ")), key=len, default="")
    # A command without arguments in front of its flags is in the middle of a sentence.
    return (
        set(FLAG.findall(command))
        - flags.get(name, every_flag(flags))
        - FOREIGN
        - ONLY_WITH_THE_FLAG
    )


def every_flag(commands: dict[str, frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*commands.values())


def test_there_are_hints_to_check() -> None:
    assert len(hints()) > 300
    assert len(list(shared_hints())) > 100


def test_flags_in_hints_are_flags_of_palestra() -> None:
    wrong = [
        (file, text)
        for file, text in hints()
        if not file.startswith(OTHER_PROGRAMS)
        for commands, rest in [commands_in(text)]
        if set(FLAG.findall(rest)) - every_flag(flags_of_palestra()) - FOREIGN - ONLY_WITH_THE_FLAG
        or any(map(unknown_flags_of, commands))
    ]

    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize(
    ("program", "flags"), [("gym", every_flag), ("ng_collect_rollouts", lambda _: frozenset())]
)
def test_flags_in_hints_become_those_of_the_program(program: str, flags: Any) -> None:
    known_flags = flags(flags_of_gym()) | FOREIGN | ONLY_WITH_THE_FLAG
    wrong = [
        (text, with_commands_of(program, text))
        for text in shared_hints()
        for commands, rest in [commands_in(with_commands_of(program, text))]
        if set(FLAG.findall(rest)) - known_flags or any(map(unknown_flags_of, commands))
    ]

    assert not wrong, "\n".join(map(str, wrong))


def test_a_flag_of_a_collection_is_one_of_gym_eval_run_or_an_override() -> None:
    of_collections = flags_of_palestra()["palestra collect"] - flags_of_gym()["gym eval run"]
    wrong = [
        (text, with_commands_of("gym", text))
        for text in shared_hints()
        for _, rest in [commands_in(with_commands_of("gym", text))]
        if set(FLAG.findall(rest)) & of_collections - FOREIGN - ONLY_WITH_THE_FLAG
    ]

    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("program", ["palestra", "gym", "ng_collect_rollouts"])
def test_overrides_in_hints_are_settings(program: str) -> None:
    known_keys = {*COMMAND_SETTINGS, *RESERVED_KEYS, *SETTINGS_OF_CONFIGS, *PLACEHOLDERS}
    wrong = [
        (key, text)
        for file, text in hints()
        if not file.startswith(OTHER_PROGRAMS)
        for key in OVERRIDE.findall(with_commands_of(program, text))
        if key not in known_keys
    ]

    assert not wrong, "\n".join(map(str, wrong))
