"""The operations of the rollout service.

Written by scripts/write_rollout_operations.py from the service's OpenAPI document. Change
`interface.py`, and run it again.
"""

from typing import Any, Protocol, TypeVar, final
from urllib.parse import quote

from palestra.training.health import Health
from palestra.training.service.wire import (
    BatchList,
    BatchRequest,
    BatchState,
    CancelRequest,
    Nothing,
    ServiceStatus,
    WeightVersion,
)

Answer = TypeVar("Answer")


class Send(Protocol):
    """Sends one request to the service."""

    async def __call__(
        self,
        method: str,
        path: str,
        answer: type[Answer],
        /,
        *,
        query: dict[str, Any] | None = None,
        body: object = None,
    ) -> Answer:
        """Return the response's body as `answer`: `bytes` unchanged, another type from JSON."""
        ...


@final
class RolloutOperations:
    """One method for each operation. `send` raises the errors that the service responds with."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def service_status(self) -> ServiceStatus:
        """Return the service and its settings."""
        return await self._send("GET", "/v1", ServiceStatus)

    async def health(self) -> Health:
        """Return whether rollouts can come back."""
        return await self._send("GET", "/v1/health", Health)

    async def submit_batch(self, batch: str, body: BatchRequest) -> BatchState:
        """Submit rollouts. The client chooses the id, so that sending it twice submits once."""
        return await self._send(
            "PUT", f"/v1/batches/{quote(batch, safe='')}", BatchState, body=body
        )

    async def batch_state(self, batch: str) -> BatchState:
        """Return the counts of a batch, and renew its lease."""
        return await self._send("GET", f"/v1/batches/{quote(batch, safe='')}", BatchState)

    async def close_batch(self, batch: str) -> BatchState:
        """Cancel what has not ended, wait for its end, and forget the batch."""
        return await self._send("DELETE", f"/v1/batches/{quote(batch, safe='')}", BatchState)

    async def list_batches(self) -> BatchList:
        """Return the counts of all batches, such as those of a trainer that was killed."""
        return await self._send("GET", "/v1/batches", BatchList)

    async def take_outcomes(
        self,
        batch: str,
        *,
        after: int = 0,
        limit: int = 256,
        wait_s: float = 20.0,
        follow: bool = True,
        packed: bool = False,
    ) -> bytes:
        """Stream outcomes as they end."""
        return await self._send(
            "GET",
            f"/v1/batches/{quote(batch, safe='')}/outcomes",
            bytes,
            query={
                "after": after,
                "limit": limit,
                "wait_s": wait_s,
                "follow": follow,
                "packed": packed,
            },
        )

    async def take_groups(
        self,
        batch: str,
        *,
        after: int = 0,
        limit: int = 256,
        wait_s: float = 20.0,
        follow: bool = True,
        packed: bool = False,
        size: int,
    ) -> bytes:
        """Stream groups, each when its last member has ended."""
        return await self._send(
            "GET",
            f"/v1/batches/{quote(batch, safe='')}/groups",
            bytes,
            query={
                "after": after,
                "limit": limit,
                "wait_s": wait_s,
                "follow": follow,
                "packed": packed,
                "size": size,
            },
        )

    async def gather(
        self,
        batch: str,
        *,
        after: int = 0,
        limit: int = 256,
        wait_s: float = 20.0,
        follow: bool = True,
        packed: bool = False,
    ) -> bytes:
        """Stream all outcomes in the order of their requests, once all have ended."""
        return await self._send(
            "GET",
            f"/v1/batches/{quote(batch, safe='')}/gathered",
            bytes,
            query={
                "after": after,
                "limit": limit,
                "wait_s": wait_s,
                "follow": follow,
                "packed": packed,
            },
        )

    async def cancel_rollouts(self, batch: str, body: CancelRequest) -> BatchState:
        """Cancel rollouts, which end as failed."""
        return await self._send(
            "POST", f"/v1/batches/{quote(batch, safe='')}/cancel", BatchState, body=body
        )

    async def pause(self) -> Nothing:
        """Start no more rollouts until `resume`."""
        return await self._send("POST", "/v1/pause", Nothing)

    async def resume(self) -> Nothing:
        """Start rollouts again."""
        return await self._send("POST", "/v1/resume", Nothing)

    async def hold_calls(self) -> Nothing:
        """Let no rollout begin a call of the model until the weight version is set."""
        return await self._send("POST", "/v1/hold", Nothing)

    async def set_weight_version(self, body: WeightVersion) -> Nothing:
        """Set the version of the model's weights from now on."""
        return await self._send("PUT", "/v1/weights", Nothing, body=body)
