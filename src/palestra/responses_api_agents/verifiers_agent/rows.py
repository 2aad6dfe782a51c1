"""Write the rows of a `verifiers` environment: one row per example of its dataset.

    python -m palestra.responses_api_agents.verifiers_agent.rows my-env out.jsonl --count 100

`--split eval` selects the evaluation set. `--args '{"difficulty": 3}'` sets arguments of
`load_environment`. The library and the environment's package must be installed.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from palestra.schema import JsonDict, JsonObject, encode_json

ROW_FIELD: Final = "verifiers"
"""The name of the row's field for the environment's values besides the prompt."""

_KEPT = ("example_id", "answer", "info")


def row_of(example: JsonObject) -> JsonDict:
    """Convert one example of an environment's dataset to a row."""
    task = {name: example[name] for name in _KEPT if example.get(name) is not None}
    messages = [
        {name: value for name, value in message.items() if value is not None}
        for message in example["prompt"]
    ]
    return {"responses_create_params": {"input": messages}, ROW_FIELD: task}


def rows_of(environment: Any, *, split: str = "train", count: int = -1) -> Iterator[JsonDict]:
    """Yield the rows of a loaded environment, in its order. A negative `count` means all rows."""
    take = environment.get_eval_dataset if split == "eval" else environment.get_dataset
    for example in take(n=count):
        yield row_of(example)


def main(arguments: list[str]) -> None:
    """Run the command: load the environment and write its rows to the output file."""
    import verifiers  # type: ignore[import-not-found]  # not installed beside our tools

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("env_id")
    parser.add_argument("output", type=Path)
    parser.add_argument("--count", type=int, default=-1)
    parser.add_argument("--split", choices=["train", "eval"], default="train")
    parser.add_argument("--args", type=orjson.loads, default={})
    options = parser.parse_args(arguments)
    environment = verifiers.load_environment(options.env_id, **options.args)
    rows = rows_of(environment, split=options.split, count=options.count)
    options.output.write_bytes(b"".join(encode_json(row) + b"\n" for row in rows))


if __name__ == "__main__":
    main(sys.argv[1:])
