"""Generate rows through `make_rows`, the function that every environment with a generator has."""

from collections.abc import Iterator, Sequence

from palestra.resources_servers.reasoning_gym.generate import DEMO, Overrides, generate_rows
from palestra.schema import JsonDict

GROUP_BY = "task_name"
"""The result field by which profiles group results."""


def make_rows(
    limit: int,
    seed: int = 0,
    *,
    families: Sequence[str] | str = DEMO,
    config_overrides: Overrides | None = None,
    system: str | None = None,
) -> Iterator[JsonDict]:
    """Yield `limit` task rows, always the same for the same seed.

    `families` (names, "all", or "demo"), `config_overrides` and `system`: as in `generate_rows`.
    """
    return generate_rows(
        families, count=limit, seed=seed, config_overrides=config_overrides, system=system
    )
