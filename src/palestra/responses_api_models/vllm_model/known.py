"""What is known of each endpoint of one model server, and when to ask again for what is not.

What an endpoint showed is kept. What it did not answer is asked again, when something depends on
it: after a pause that doubles up to half a minute. Whatever depends on it waits for the answer, a
minute at most, and then fails as a matter of the endpoint, not of its settings.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import final

from palestra.responses_api_models.vllm_model.capabilities import (
    FOR_TOKEN_IDS,
    Capabilities,
    Question,
    Unanswered,
)
from palestra.transport import current_call

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
PATIENCE_S = 60.0
"""How long a turn waits for what it depends on, if its rollout's deadline allows."""

Probe = Callable[[Capabilities, frozenset[Question]], Awaitable[Capabilities]]
"""Asks an endpoint those of the questions that are open. Raises `Hopeless`."""


@dataclass(slots=True)
class _Place:
    """One endpoint."""

    found: Capabilities
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    in_vain: int = 0
    """Times in a row that something stayed open."""
    not_before: float = 0.0
    """When it may be asked again, by the clock."""

    def is_open(self, questions: frozenset[Question]) -> bool:
        return not questions.isdisjoint(self.found.unanswered)


@final
class Known:
    """The capabilities of a model server's endpoints, by base URL. `server` is its name."""

    def __init__(
        self,
        probe: Probe,
        *,
        server: str,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._probe = probe
        self._server = server
        self._clock = clock
        self._sleep = sleep
        self._places: dict[str, _Place] = {}

    def now(self, base_url: str) -> Capabilities:
        """What is known, without asking."""
        return self._place(base_url).found

    def note(self, capabilities: Capabilities) -> None:
        """Something was learned of an endpoint in another way."""
        endpoint_state = self._place(capabilities.base_url)
        endpoint_state.found, endpoint_state.in_vain, endpoint_state.not_before = (
            capabilities,
            0,
            0.0,
        )

    def forget(self, base_url: str, question: Question) -> None:
        """An endpoint behaved otherwise than it had shown: ask it again."""
        capabilities = self.now(base_url)
        why = Unanswered("it behaved otherwise than before")
        self.note(replace(capabilities, unanswered={**capabilities.unanswered, question: why}))

    async def asked(self, base_url: str, questions: frozenset[Question]) -> Capabilities:
        """What is known, once what is open of `questions` was asked, if it is time to.

        Raises `Hopeless` when no answer can come as things are configured.
        """
        endpoint_state = self._place(base_url)
        if endpoint_state.is_open(questions) and (
            endpoint_state.asking.locked() or self._is_time(endpoint_state)
        ):
            async with endpoint_state.asking:
                if endpoint_state.is_open(questions) and self._is_time(endpoint_state):
                    await self._ask(endpoint_state, questions)
        return endpoint_state.found

    async def certain(self, base_url: str, *, later: bool) -> Capabilities:
        """What is known, once all is that a turn depends on (see `Capabilities.missing`).

        Raises `InfraError` when that takes too long or waiting does not help.
        """
        give_up = self._clock() + PATIENCE_S
        while True:
            capabilities = await self.asked(base_url, FOR_TOKEN_IDS)
            missing = capabilities.missing(later=later)
            if missing is None:
                return capabilities
            pause = max(0.0, self._place(base_url).not_before - self._clock())
            left_s = current_call().remaining_s()
            too_long = self._clock() + pause > give_up or (left_s is not None and left_s <= pause)
            if too_long or not capabilities.unanswered[missing].passing:
                raise capabilities.not_known(self._server, missing)
            await self._sleep(pause)

    def _place(self, base_url: str) -> _Place:
        endpoint_state = self._places.get(base_url)
        if endpoint_state is None:
            endpoint_state = self._places[base_url] = _Place(Capabilities.unasked(base_url))
        return endpoint_state

    def _is_time(self, endpoint_state: _Place) -> bool:
        return self._clock() >= endpoint_state.not_before

    async def _ask(self, endpoint_state: _Place, questions: frozenset[Question]) -> None:
        # Before it is asked, as whoever asks may be cancelled.
        self._pause(endpoint_state)
        endpoint_state.found = await self._probe(endpoint_state.found, questions)
        if endpoint_state.is_open(questions):
            endpoint_state.in_vain += 1
            self._pause(endpoint_state)
        else:
            endpoint_state.in_vain, endpoint_state.not_before = 0, 0.0

    def _pause(self, endpoint_state: _Place) -> None:
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(endpoint_state.in_vain, 10))
        endpoint_state.not_before = self._clock() + pause
