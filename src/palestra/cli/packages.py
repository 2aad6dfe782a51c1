"""`palestra pip-list`: list the packages of the environment that a server runs in."""

import sys
from pathlib import Path

import orjson

from palestra.cli.authoring import server_folder
from palestra.cli.console import notice, say_json
from palestra.errors import RunFailed
from palestra.fleet import cache_root, made_interpreter, require_uv, requirements_of
from palestra.settings import PipListArgs, args_from, existing_path, load
from palestra.system import run, shown

LIST_TIMEOUT_S = 120.0


def ng_pip_list(
    overrides: list[str], *, hint: str = "+entrypoint=resources_servers/my_env +format=json"
) -> int:
    """Run `ng_pip_list +entrypoint=resources_servers/my_env`. `hint`: how to name a server."""
    tree = load(overrides, ng=True, require_all=False).tree
    return pip_list(args_from(PipListArgs, tree, hint=hint), cache=tree.get("uv_venv_dir"))


def pip_list(args: PipListArgs, *, cache: str | None = None) -> int:
    """Print the packages of a server's environment, and return the exit code of `uv pip list`.

    Raises ConfigError: the server's folder does not exist. Raises RunFailed: its environment is not
    made yet.
    """
    folder = _folder(args.entrypoint)
    python = made_interpreter(folder, cache=cache_root(cache))
    if python is None:
        raise RunFailed(
            f"{shown(folder)} has no virtual environment yet; it requires "
            f"{', '.join(requirements_of(folder))}",
            hint="the first start of the server makes it: `palestra run`",
        )
    if python == Path(sys.executable):
        notice(f"{shown(folder)} runs in Palestra's own environment: {sys.prefix}")
    else:
        notice(
            f"{shown(folder)} runs in {python.parents[1]}; its packages come before those of "
            f"{sys.prefix}"
        )
    command = [*require_uv("pip-list"), "pip", "list", "--python", str(python)]
    # uv writes to the file of standard output, which under `--json` is not the document's.
    as_json = args.as_json or args.format == "json"
    command += ["--format", "json" if as_json else args.format]
    command += ["--outdated"] if args.outdated else []
    try:
        finished = run(command, timeout_s=LIST_TIMEOUT_S, inherits_output=not as_json)
    except TimeoutError:
        raise RunFailed(f"uv did not answer within {LIST_TIMEOUT_S:.0f} s") from None
    if finished.complaint:
        notice(finished.complaint)
    if as_json and finished.code == 0:
        say_json(orjson.loads(finished.output))
    return finished.code


def _folder(name: str) -> Path:
    path = existing_path(name)
    folder = path.parent if path.is_file() else path
    return folder if folder.is_dir() else server_folder(name)
