"""Rows on demand, under the name that every environment with a generator offers them."""

from collections.abc import Iterator
from typing import Any

from palestra.resources_servers.reasoning_gym.generate import DEMO, generate_rows
from palestra.schema import JsonDict

GROUP_BY = "task_name"
"""The field of a result row by which its profile is grouped."""


def make_rows(limit: int, seed: int = 0, **options: Any) -> Iterator[JsonDict]:
    """`limit` task rows, the same for the same seed.

    `options`: `families` (names, "all", or "demo", the default), `config_overrides` and `system`
    as in `generate_rows`.
    """
    wanted = options.pop("families", DEMO)
    return generate_rows(wanted, count=limit, seed=seed, **options)
