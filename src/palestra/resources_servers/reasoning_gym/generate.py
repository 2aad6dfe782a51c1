"""Generate task rows: any number from any families, always the same for the same seed.

    python -m palestra.resources_servers.reasoning_gym.generate --families demo --count 100

Rows alternate between the families. A smaller `count` gives the first rows of a larger one.
Different seeds give different tasks: each family's stream is seeded by a hash of seed and name.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import count as count_from
from itertools import islice
from pathlib import Path
from typing import Any

from palestra.errors import BadInput, ConfigError
from palestra.resources_servers.reasoning_gym.library import (
    check_family,
    families,
    load_reasoning_gym,
)
from palestra.schema import JsonDict, JsonObject, encode_json

Overrides = Mapping[str, JsonObject]

ALL = "all"
DEMO = "demo"

DEMO_FAMILIES: Overrides = {
    "basic_arithmetic": {
        "min_terms": 2,
        "max_terms": 2,
        "max_digits": 1,
        "operators": ("+", "-"),
        "allow_parentheses": False,
        "allow_negation": False,
    },
    "chain_sum": {"min_terms": 2, "max_terms": 2, "max_digits": 1},
    "leg_counting": {"min_animals": 1, "max_animals": 1, "max_instances": 2},
    "letter_counting": {"min_words": 2, "max_words": 3},
    "products": {"min_terms": 2, "max_terms": 2, "max_digits": 1},
    "spell_backward": {"min_word_len": 3, "max_word_len": 3},
}
"""Families with prompts of fewer than 120 tokens, with settings easy enough for a very small model.
"""

DEMO_SYSTEM = "Reply with the final answer only. No words, no explanation."

NOT_IN_ALL = frozenset(
    {
        "isomorphic_strings",
        "knight_swap",
        "polynomial_multiplication",
        "ransom_note",
        "word_ladder",
        "zebra_puzzles",
    }
)
"""Families that "all" leaves out; they can be selected by name. `zebra_puzzles` needs pycosat. The
others generate different tasks in every process, because they iterate over sets of strings."""

CHUNK = 500
"""The number of tasks per generator. Some generators create all tasks at once, so their tasks
depend on this number."""


def generate_rows(
    families: Sequence[str] | str,
    *,
    count: int,
    seed: int = 0,
    config_overrides: Overrides | None = None,
    system: str | None = None,
) -> Iterator[JsonDict]:
    """Yield `count` rows from `families`: a list of names, "all" or "demo".

    `config_overrides`: generator settings by family. `system`: a system message for every row; by
    default only "demo" has one. Raises ConfigError before the first row: unknown family, or a
    setting that its generator does not accept.
    """
    names, settings = _chosen(families, config_overrides or {})
    if system is None:
        system = DEMO_SYSTEM if families == DEMO else ""
    streams = [_Stream(name, seed, settings.get(name, {})) for name in names]
    return islice((_row(next(stream), system) for _ in count_from() for stream in streams), count)


def _chosen(family_names: Sequence[str] | str, overrides: Overrides) -> tuple[list[str], Overrides]:
    settings: dict[str, JsonObject] = dict(overrides)
    if family_names == ALL:
        names = [name for name in families() if name not in NOT_IN_ALL]
    elif family_names == DEMO:
        names = list(DEMO_FAMILIES)
        settings = {name: {**DEMO_FAMILIES[name], **overrides.get(name, {})} for name in names}
    else:
        names = family_names.split(",") if isinstance(family_names, str) else list(family_names)
    if not names:
        raise ConfigError(
            "no family of tasks is named", hint=f"name families of tasks, or {ALL!r}, or {DEMO!r}"
        )
    for name in (*names, *overrides):
        check_family(name)
    return names, settings


class _Stream(Iterator[JsonDict]):
    """The endless stream of one family's tasks. The constructor checks the settings."""

    def __init__(self, name: str, seed: int, settings: JsonObject) -> None:
        self._name = name
        self._seed = seed
        self._settings = settings
        self._place = 0
        self._dataset = self._chunk(0)

    def __next__(self) -> JsonDict:
        chunk, index = divmod(self._place, CHUNK)
        if chunk and not index:
            self._dataset = self._chunk(chunk)
        self._place += 1
        task: JsonDict = self._dataset[index]
        return task

    def _chunk(self, chunk: int) -> Any:
        digest = blake2b(f"{self._seed}/{self._name}/{chunk}".encode(), digest_size=4).digest()
        fixed = {"size": CHUNK, "seed": int.from_bytes(digest)}
        try:
            return load_reasoning_gym().create_dataset(self._name, **{**self._settings, **fixed})
        except (AssertionError, TypeError, ValueError) as error:
            raise ConfigError(
                f"reasoning_gym's {self._name} does not take {dict(self._settings)}: {error}"
            ) from error


def _row(task: JsonObject, system: str) -> JsonDict:
    messages = [{"role": "user", "content": task["question"]}]
    if system:
        messages.insert(0, {"role": "system", "content": system})
    return {
        "responses_create_params": {"input": messages},
        "question": task["question"],
        "answer": task["answer"],
        # Through JSON, so that a row is the same whether it was just made or read from a file.
        "metadata": json.loads(json.dumps(task["metadata"])),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write rows as JSON lines. Return the exit code."""
    parser = argparse.ArgumentParser(prog="generate", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--families", default=DEMO, help="names with commas, or all, or demo")
    parser.add_argument("--count", type=int, default=100, help="how many rows")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="the file to write; without it, standard output")
    options = parser.parse_args(arguments)
    try:
        rows = generate_rows(options.families, count=options.count, seed=options.seed)
    except BadInput as error:
        sys.stderr.write(f"{error.message}\n{error.hint}\n")
        return error.exit_code
    if options.out is None:
        _write(rows, sys.stdout.buffer)
    else:
        with options.out.open("wb") as file:
            _write(rows, file)
    return 0


def _write(rows: Iterator[JsonDict], file: Any) -> None:
    for row in rows:
        file.write(encode_json(row) + b"\n")


if __name__ == "__main__":
    sys.exit(main())
