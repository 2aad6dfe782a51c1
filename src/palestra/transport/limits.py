"""The bound on one call that is made for a rollout, beside the rollout's own deadline."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from palestra.errors import DeadlineExceeded
from palestra.transport.context import current_call

Answer = TypeVar("Answer")

RUN_PATH = "/run"
"""The call that is the rollout, and none that is made for it."""


def call_limit_s(path: str) -> float | None:
    """How long a call of `path` may take, when its rollout says so."""
    return None if path == RUN_PATH else current_call().call_limit_s


async def within(limit_s: float, call: Awaitable[Answer], *, what: str) -> Answer:
    """The answer of `call`. Raises `DeadlineExceeded` after `limit_s`, and what it raises."""
    limit = asyncio.timeout(limit_s)
    try:
        async with limit:
            return await call
    except TimeoutError:
        if not limit.expired():
            raise
        raise DeadlineExceeded(
            f"{what} took longer than {limit_s:g} s",
            hint="raise call_timeout_s, or find out why it is slow",
        ) from None
