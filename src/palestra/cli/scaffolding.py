"""`init`: make a new environment, and say what to do next."""

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Final

from palestra.api import read_rows
from palestra.authoring import (
    Template,
    folder_for,
    folder_from_file,
    scaffold,
    scaffold_file,
    write_config,
)
from palestra.cli.authoring import entrypoint_of, record
from palestra.cli.console import notice, say
from palestra.config import PACKAGE_ROOT, NamedFile, did_you_mean_path
from palestra.errors import ConfigError
from palestra.fleet import requirements_of, start_timeout_of, unsatisfied
from palestra.programs import command_words, has_flags, typed_program
from palestra.settings import InitArgs, existing_path
from palestra.system import shown

_FILE: Final = "file"
NEXT_COMMANDS: Final = (
    "palestra test {name}",
    "palestra verify-env {name}",
    "palestra eval {name} --model local",
)


def init(args: InitArgs, *, next_commands: Sequence[str] = NEXT_COMMANDS) -> int:
    """Make the folder or the file of a new environment, and print what to do next.

    `next_commands`: the commands to print, with `{name}` for the environment's name.
    """
    _refuse_unused(args)
    if args.source is not None:
        return _from_file(args.source, args)
    if not args.name:
        raise ConfigError("the new environment has no name", hint="palestra init my_env")
    if args.config_only:
        say(f"made {shown(write_config(args.name, Path.cwd()))}")
        return 0
    if args.template == _FILE:
        path = scaffold_file(args.name, Path.cwd())
        say(f"made {shown(path)}")
        _say_next(shown(path), "edit it")
        return 0
    if not args.shadow:
        _refuse_built_in(folder_for(args.name, Path.cwd()).name)
    folder = scaffold(args.name, Path.cwd(), Template(args.template))
    say(f"made {shown(folder)}:")
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        say(f"  {path.relative_to(folder)}")
    _say_next(folder.name, "edit app.py and data/example.jsonl", next_commands)
    return 0


def _refuse_unused(args: InitArgs) -> None:
    """Raise ConfigError: an option was set that another option makes useless."""
    if args.source is not None and args.config_only:
        raise ConfigError("--from and --config-only cannot be combined")
    if "template" in args.model_fields_set:
        for option, is_set in (("--from", args.source), ("--config-only", args.config_only)):
            if is_set:
                raise ConfigError(f"--template does nothing with {option}: use one of them")


def _near(source_file: NamedFile | None) -> str:
    return "" if source_file is None else did_you_mean_path(existing_path(source_file.path))


def _from_file(source: str, args: InitArgs) -> int:
    """Make a folder of an environment in one file, with recorded examples where it has a gold."""
    source_file = NamedFile.parse(source)
    if source_file is None or not existing_path(source_file.path).is_file():
        raise ConfigError(f"--from {source}: there is no such Python file{_near(source_file)}")
    where = args.name or Path(source_file.path).stem
    if not args.shadow:
        _refuse_built_in(PurePath(where).name)
    contents = read_rows(source_file, {}, start_timeout_of({}), notice)
    folder = folder_from_file(source_file, contents, where, Path.cwd())
    # Examples are recorded in this process, which may lack what the file imports.
    runs_here = not unsatisfied(requirements_of(existing_path(source_file.path)))
    recorded = bool(contents.rows) and contents.has_gold and runs_here
    if recorded:
        record(str(folder))
    say(f"made {shown(folder)}:")
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        say(f"  {path.relative_to(folder)}")
    _say_next(folder.name, "edit app.py" if recorded else f"palestra test {folder.name} --record")
    return 0


def _say_next(name: str, edit: str, next_commands: Sequence[str] = NEXT_COMMANDS) -> None:
    say(f"next: {edit}, then")
    for command in next_commands:
        say(f"  {command.format(name=name)}")


def warn_built_in(name: str) -> None:
    """Print a warning when Palestra has an environment of this name."""
    if _is_built_in(name):
        notice(
            f"warning: Palestra has an environment {name!r}, and yours hides it in this folder; "
            "remove yours to get it back"
        )


def _is_built_in(name: str) -> bool:
    return (PACKAGE_ROOT / "resources_servers" / name).is_dir()


def _refuse_built_in(name: str) -> None:
    """Raise ConfigError when Palestra has an environment of this name."""
    if _is_built_in(name):
        shadow = "--shadow" if has_flags(typed_program()) else "+shadow=true"
        raise ConfigError(
            f"Palestra has an environment {name!r}, and one of yours with this name would hide it",
            hint=f"choose another name, or hide it with {shadow}",
        )


def ng_init(overrides: list[str]) -> int:
    """Run `ng_init_resources_server +entrypoint=resources_servers/my_env`."""
    typed = entrypoint_of(overrides)
    args = InitArgs(name=typed.entrypoint, shadow=typed.shadow)
    test = f"{command_words('test', typed_program())} +entrypoint={args.name}"
    return init(args, next_commands=(test, *NEXT_COMMANDS[1:]))


def init_with_warning(overrides: list[str], next_commands: Sequence[str]) -> int:
    """Run `gym env init --resources-server my_env`, which only warns of a built-in name."""
    name = entrypoint_of(overrides).entrypoint
    code = init(InitArgs(name=name, shadow=True), next_commands=next_commands)
    warn_built_in(Path(name).name)
    return code
