"""`replay_model`: a model server that returns the answers of a recorded run, without any endpoint."""

import asyncio
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from palestra.errors import InputDataError, ModelRejectedRow
from palestra.responses_api_models.replay_model.recording import (
    Recording,
    Rollout,
    items_of,
    same,
    turns_of,
)
from palestra.schema import InputItem, Response, ResponseCreateParams
from palestra.server import ModelServer, ModelServerConfig, Session
from palestra.transport import current_call, new_id


class ReplayModelConfig(ModelServerConfig):
    """The settings of `replay_model`."""

    rollouts: str | list[str]
    """The files that `palestra collect` wrote, relative to the working directory."""
    strict: bool = True
    """Whether the task and the tool outputs must equal the recorded ones. If false, only the turn's
    number is used."""


class ReplayModel(ModelServer):
    """A model server that finds the recorded turn by the rollout's identity and its number of turns
    so far.
    """

    config: ReplayModelConfig

    @cached_property
    def _recording(self) -> Recording:
        rollouts = self.config.rollouts
        return Recording.of(
            Path(path) for path in ([rollouts] if isinstance(rollouts, str) else rollouts)
        )

    async def start(self) -> None:
        """Scan the recorded files. Raises InputDataError: a file is missing or contains no
        rollouts.
        """
        await asyncio.to_thread(lambda: self._recording)

    async def responses(self, body: ResponseCreateParams, session: Session) -> Response:
        """Return the recorded turn. Raises `ModelRejectedRow`: no such turn was recorded."""
        del session
        row = current_call().row
        if row is None or row.task is None or row.rollout is None:
            raise _miss(
                "the request does not say which rollout it is for",
                "use replay_model only in runs of palestra: their requests name the rollout",
            )
        which = f"task {row.task}, rollout {row.rollout}"
        try:
            rollout = await self._recording.rollout((row.task, row.rollout))
        except InputDataError as error:
            raise _miss(error.message, error.hint) from error
        if rollout is None:
            raise _miss(
                f"no rollout is recorded for {which}; the recording has {len(self._recording)} "
                "other rollouts",
                "replay the same input with the same limit and repeats as were recorded",
            )
        return self._turn(rollout, body, which)

    def _turn(self, rollout: Rollout, body: ResponseCreateParams, which: str) -> Response:
        request_items = items_of(body)
        before = rollout.turns_before
        number = len(turns_of(request_items)) - before
        if number >= len(rollout.turns) or number < 0:
            raise _miss(
                f"{which} has {len(rollout.turns)} recorded turns, but the agent requested turn "
                f"{number + 1}",
                "the agent behaves differently than in the recorded run: use the same agent and "
                "settings",
            )
        if self.config.strict:
            _check_history(rollout, request_items, number, which)
        return _answer(rollout, number)

    async def list_models(self) -> list[str]:
        """Return the single model name `replay`."""
        return ["replay"]

    async def check(self) -> str:
        """Return a text with the number of recorded rollouts. Raises InputDataError: a file is
        missing.
        """
        await self.start()
        return f"replays {len(self._recording)} recorded rollouts"


def _check_history(
    rollout: Rollout, request_items: Sequence[InputItem], number: int, which: str
) -> None:
    items = list(request_items)
    task = list(items_of(rollout.params))
    if not same(task, items[: len(task)]):
        raise _miss(
            f"the task of {which} is not the recorded one",
            "replay the same input, or set strict: false to compare only the number of the turn",
        )
    recorded = [item for turn in rollout.turns[: number + 1] for item in (*turn.heard, *turn.said)]
    recorded = recorded[: len(recorded) - len(rollout.turns[number].said)]
    if not same(recorded, items[len(task) :]):
        raise _miss(
            f"the conversation before turn {number + 1} of {which} differs from the recorded one "
            "(a tool answered differently, or the agent changed the history)",
            "set strict: false to compare only the number of the turn",
        )


def _answer(rollout: Rollout, number: int) -> Response:
    """Return a recorded turn as a response. The last turn carries the usage, which was recorded as
    a sum.
    """
    recorded = rollout.response
    is_last = number == len(rollout.turns) - 1
    return recorded.model_copy(
        update={
            "id": new_id("resp_"),
            "output": list(rollout.turns[number].said),
            "usage": recorded.usage if is_last else None,
            "incomplete_details": recorded.incomplete_details if is_last else None,
            "status": recorded.status if is_last else "completed",
        }
    )


def _miss(message: str, hint: str) -> ModelRejectedRow:
    return ModelRejectedRow(f"replay_model: {message}", hint=hint)
