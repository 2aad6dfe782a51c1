"""Store the known capabilities of a model server's endpoints, and decide when to ask again.

Answers are kept. An unanswered question is asked again when a turn needs its answer, after a pause
that doubles up to 30 s. The turn waits for at most a minute. Then it fails, and the error blames
the endpoint, not its settings.
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
"""The maximum seconds that a turn waits for an answer it needs; the rollout's deadline may be
earlier."""

Probe = Callable[[Capabilities, frozenset[Question]], Awaitable[Capabilities]]
"""A function that asks an endpoint the unanswered ones of the questions. Raises `Hopeless`."""


@dataclass(slots=True)
class _Place:
    """The state of one endpoint."""

    found: Capabilities
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    in_vain: int = 0
    """The number of consecutive attempts after which a question stayed unanswered."""
    not_before: float = 0.0
    """The earliest time to ask the endpoint again, by the clock of `Known`."""

    def is_open(self, questions: frozenset[Question]) -> bool:
        return not questions.isdisjoint(self.found.unanswered)


@final
class Known:
    """The capabilities of a model server's endpoints, by base URL. `server`: the model server's
    name.
    """

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
        """Return the endpoint's known capabilities, without asking it."""
        return self._state_of(base_url).found

    def note(self, capabilities: Capabilities) -> None:
        """Store capabilities of an endpoint that were learned in another way."""
        endpoint_state = self._state_of(capabilities.base_url)
        endpoint_state.found, endpoint_state.in_vain, endpoint_state.not_before = (
            capabilities,
            0,
            0.0,
        )

    def forget(self, base_url: str, question: Question) -> None:
        """Mark `question` as unanswered, because the endpoint behaved differently. It will be asked
        again.
        """
        capabilities = self.now(base_url)
        why = Unanswered("the endpoint behaved differently than before")
        self.note(replace(capabilities, unanswered={**capabilities.unanswered, question: why}))

    async def asked(self, base_url: str, questions: frozenset[Question]) -> Capabilities:
        """Ask the endpoint those of `questions` that it has not answered yet; return its capabilities.

        After a failed try, the endpoint is not asked again before a pause is over.

        Raises `Hopeless`: with this configuration, no answer can come.
        """
        endpoint_state = self._state_of(base_url)
        if endpoint_state.is_open(questions) and (
            endpoint_state.asking.locked() or self._is_time(endpoint_state)
        ):
            async with endpoint_state.asking:
                if endpoint_state.is_open(questions) and self._is_time(endpoint_state):
                    await self._ask(endpoint_state, questions)
        return endpoint_state.found

    async def certain(self, base_url: str, *, later: bool) -> Capabilities:
        """Return the capabilities once all answers that a turn needs are known (see
        `Capabilities.missing`).

        Raises `InfraError`: this takes too long, or waiting does not help.
        """
        give_up = self._clock() + PATIENCE_S
        while True:
            capabilities = await self.asked(base_url, FOR_TOKEN_IDS)
            missing = capabilities.missing(later=later)
            if missing is None:
                return capabilities
            pause = max(0.0, self._state_of(base_url).not_before - self._clock())
            left_s = current_call().remaining_s()
            too_long = self._clock() + pause > give_up or (left_s is not None and left_s <= pause)
            if too_long or not capabilities.unanswered[missing].passing:
                raise capabilities.not_known(self._server, missing)
            await self._sleep(pause)

    def _state_of(self, base_url: str) -> _Place:
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
