"""`nemo_gym.rollout_collection`: the keys of result rows, and running rows from a library's code."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from palestra.compat.client import ServerClient
from palestra.compat.http import response_json
from palestra.schema import AGENT_REF, FAILURE_CLASS, FAILURE_TERMINAL, NO_PERSIST, JsonDict

NG_FAILURE_CLASS_KEY: Final = FAILURE_CLASS
NG_FAILURE_TERMINAL_KEY: Final = FAILURE_TERMINAL
NG_NO_PERSIST_KEY: Final = NO_PERSIST


class RolloutCollectionConfig(BaseModel):
    """The settings of a rollout collection."""

    model_config = ConfigDict(extra="allow")


class RolloutCollectionHelper(BaseModel):
    """Runs rows against a running fleet."""

    model_config = ConfigDict(extra="allow")

    def run_examples(
        self,
        examples: Sequence[JsonDict],
        head_server_config: Any = None,
        semaphore: Any = None,
    ) -> "Iterator[asyncio.Future[tuple[JsonDict, JsonDict]]]":
        """Return futures of (row, result), in the order in which the rollouts finish."""
        client = self.setup_server_client(head_server_config)
        bound = semaphore or contextlib.nullcontext()

        async def run(row: JsonDict) -> tuple[JsonDict, JsonDict]:
            async with bound:
                reply = await client.post(row[AGENT_REF]["name"], "/run", json=row)
                return row, await response_json(reply)

        return asyncio.as_completed([run(row) for row in examples])

    def setup_server_client(self, head_server_config: Any = None) -> ServerClient:
        """Return a client of the fleet whose head server is at `head_server_config`."""
        return ServerClient.load_from_global_config(head_server_config)
