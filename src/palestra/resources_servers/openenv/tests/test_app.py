"""openenv: its example rows, and what is said where no server is."""

import asyncio
import json
from pathlib import Path

import pytest

from palestra.errors import ConfigError
from palestra.resources_servers.openenv.app import OpenEnvRow
from palestra.testing import server_of

FOLDER = Path(__file__).parents[1]
ROWS = [json.loads(line) for line in (FOLDER / "data/example.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("row", ROWS)
def test_the_example_rows_say_how_to_reset(row: dict) -> None:  # type: ignore[type-arg]
    assert isinstance(OpenEnvRow.model_validate(row).reset["seed"], int)


def test_a_server_that_is_not_there_is_said_before_the_first_row() -> None:
    server = server_of(FOLDER, base_url="http://127.0.0.1:9")

    with pytest.raises(ConfigError, match="there is no OpenEnv server at"):
        asyncio.run(server.start())
