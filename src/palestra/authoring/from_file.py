"""`init --from`: make the folder of an environment from its one file, which behaves the same."""

from collections.abc import Mapping
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

from palestra.authoring.scaffold import folder_for, write_folder
from palestra.config import NamedFile, environment_tree, write_yaml
from palestra.errors import ConfigError
from palestra.fleet import FileRows, requirements_of
from palestra.schema import encode_json
from palestra.settings import existing_paths

SERVERS: Final = "resources_servers"
EXAMPLES: Final = 5
"""How many example rows the folder of an environment has."""

_TEST: Final = '''"""{name}: its rows and its right answers."""

import json
from pathlib import Path

import pytest

from palestra.testing import server_of, verify

FOLDER = Path(__file__).parents[1]
ROWS = [json.loads(line) for line in (FOLDER / "data" / "example.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("row", ROWS)
def test_every_row_has_a_prompt(row: dict) -> None:
    assert row["responses_create_params"]["input"]


{gold}'''
_GOLD: Final = """@pytest.mark.parametrize("row", ROWS)
def test_a_right_answer_gets_the_highest_reward(row: dict) -> None:
    server = server_of(FOLDER)

    verdict = verify(FOLDER, row, server.gold_response(row))

    assert verdict.reward >= server.declared_reward_rules().highest - 1e-9
"""
_README: Final = """# {name}

{description}

## Rows

`app.py` makes them: `data` names them and `prompt` asks them. `data/example.jsonl` holds five of
them as the model gets them.

## Reward

What `verify` in `app.py` returns.

## Data

Say here where it comes from, and its licence.
"""


def folder_from_file(source_file: NamedFile, contents: FileRows, where: str, cwd: Path) -> Path:
    """Make the folder of an environment from its file, and return it. `contents`: what was read of
    the file.

    `where`: the name of the folder, or `resources_servers/<name>`. Raises ConfigError, and writes
    nothing: the environment cannot be moved there.
    """
    path = Path(source_file.path).absolute()
    folder = folder_for(where, cwd)
    name = folder.name
    description = contents.description or name.replace("_", " ")
    rows = contents.rows
    config = _config(source_file, name, description)
    asks_judge = "judge_model_server" in config[name][SERVERS][name]
    test = _TEST.format(name=name, gold=_GOLD if contents.has_gold and not asks_judge else "")
    texts: dict[Path, str | bytes] = {
        Path("app.py"): path.read_bytes(),
        Path(f"configs/{name}.yaml"): write_yaml(config),
        Path("data/example.jsonl"): _lines(islice(cycle(rows), EXAMPLES if rows else 0)),
        Path("requirements.txt"): "".join(f"{line}\n" for line in requirements_of(path)),
        Path("README.md"): _README.format(name=name, description=description),
        Path("tests/test_app.py"): test.rstrip() + "\n",
        **_data_of(contents.data_path, path.parent),
    }
    return write_folder(folder, texts)


def _lines(rows: Any) -> bytes:
    return b"".join(encode_json(row) + b"\n" for row in rows)


def _data_of(data: str, source: Path) -> Mapping[Path, bytes]:
    """Return the data files beside the environment, by their paths in the folder; none for other
    data.

    Raises ConfigError: the path leads out of the folder of the file.
    """
    relative = Path(data)
    if not data or data.startswith("hf:") or relative.is_absolute():
        return {}
    if ".." in relative.parts:
        raise ConfigError(
            f"data = {data!r} leads out of the folder of the file, so the new folder would not "
            "find it",
            hint="move the file beside the environment, or name it by its absolute path",
        )
    files = existing_paths(relative, source)
    return {file.relative_to(source): file.read_bytes() for file in files}


def _config(source_file: NamedFile, name: str, description: str) -> dict[str, Any]:
    """Return the configuration of the folder: that of the file, with the folder as the server."""
    tree = environment_tree(Path(source_file.path), source_file.class_name)
    (server,) = (block for block in tree.values() if SERVERS in block)
    (agent,) = (block for block in tree.values() if SERVERS not in block)
    settings = dict(server[SERVERS]["environment_file"])
    del settings["path"]
    settings |= {"domain": "other", "description": description, "verified": False}
    agent_settings = dict(agent["responses_api_agents"]["environment_agent"])
    agent_settings["resources_server"] = {"type": SERVERS, "name": name}
    agent_settings["datasets"] = [
        {"name": "example", "type": "example", "jsonl_fpath": f"{SERVERS}/{name}/app.py"}
    ]
    return {
        name: {SERVERS: {name: settings}},
        f"{name}_agent": {"responses_api_agents": {"environment_agent": agent_settings}},
    }
