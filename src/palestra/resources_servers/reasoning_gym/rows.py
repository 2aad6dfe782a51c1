"""Generate rows through `make_rows`, the function that every environment with a generator has."""

from collections.abc import Iterator
from typing import Any

from palestra.resources_servers.reasoning_gym.generate import DEMO, generate_rows
from palestra.schema import JsonDict

GROUP_BY = "task_name"
"""The result field by which profiles group results."""


def make_rows(limit: int, seed: int = 0, **options: Any) -> Iterator[JsonDict]:
    """Yield `limit` task rows, always the same for the same seed.

    `options`: `families` (names, "all", or "demo", the default), `config_overrides` and `system`,
    as in `generate_rows`.
    """
    families = options.pop("families", DEMO)
    return generate_rows(families, count=limit, seed=seed, **options)
