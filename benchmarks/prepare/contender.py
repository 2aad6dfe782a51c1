"""One way of going over all rows: `python -m ...contender WAY FOLDER`, in a process of its own.

parse    every row through orjson, nothing kept and nothing written: what the budget is made of
json     every row through the standard library's json, likewise
naive    validated with pydantic, `json.dumps` for the words, rows in memory, written again
alone    `palestra prepare` in one process, with mcqa's request models, written once and per type
prepare  the same, with a process for each core, as it does by itself
"""

import json
import sys
from pathlib import Path

import orjson
from palestra.cli.doors import doors_of_agents

from palestra.config import load_config
from palestra.datasets import AgentDataset, DatasetEntry
from palestra.datasets.preparing.files import Located
from palestra.datasets.preparing.prepare import PrepareSettings, prepare_datasets
from palestra.schema import ResponseCreateParams

MCQA = "resources_servers/mcqa/configs/mcqa.yaml"
AGENT = "mcqa_simple_agent"


def parse(path: Path, _output: Path) -> None:
    """Decode."""
    with path.open("rb", buffering=1 << 20) as file:
        for line in file:
            orjson.loads(line)


def parse_with_json(path: Path, _output: Path) -> None:
    """Decode, as a script without further libraries does."""
    with path.open("rb", buffering=1 << 20) as file:
        for line in file:
            json.loads(line)


def naive(path: Path, output: Path) -> None:
    """What a script of ten lines does."""
    rows = []
    words = []
    for line in path.open("rb"):
        row = orjson.loads(line)
        ResponseCreateParams.model_validate(row["responses_create_params"])
        words.append(len(json.dumps(row["responses_create_params"]).split()))
        rows.append({**row, "agent_ref": {"type": "responses_api_agents", "name": AGENT}})
    with (output / "train.jsonl").open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def prepare(path: Path, output: Path) -> None:
    """Ours."""
    config = load_config(config_paths=[MCQA], required=(), use_env_yaml=False)
    doors = doors_of_agents(config, [AGENT], report=sys.exit)
    assert doors[AGENT]
    given = {"name": "set", "type": "train", "license": "MIT", "jsonl_fpath": str(path)}
    entry = DatasetEntry.model_validate(given)
    prepare_datasets(
        [Located(AgentDataset(AGENT, entry), path)],
        PrepareSettings(output, overwrite_metrics_conflicts=True),
        doors=doors,
        report=sys.exit,
    )


WAYS = {"parse": parse, "json": parse_with_json, "naive": naive, "prepare": prepare}


def main(way: str, folder: Path) -> None:
    """Run it once."""
    output = folder / way
    output.mkdir(exist_ok=True)
    WAYS[way](folder / "rows.jsonl", output)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
