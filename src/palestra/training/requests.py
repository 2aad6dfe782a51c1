"""What a trainer asks for: one `RolloutRequest` for each rollout it wants back."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from palestra.errors import InputDataError
from palestra.schema import JsonObject
from palestra.training.checks import MAPPING, NAME, SECONDS, Rule, problems_in, shown, whole


class Key(NamedTuple):
    """Which rollout of which task. Everything that is said of a rollout names it by this."""

    task_id: int | str
    rollout_index: int

    def __str__(self) -> str:
        return f"{self.task_id}:{self.rollout_index}"


class RolloutRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One rollout that is wanted. `row` is the task as a dataset has it, and is not changed."""

    row: JsonObject
    """With `responses_create_params`, what the verifier reads, and `agent_ref` where the client
    names no agent."""
    task_id: int | str
    """Unique among the tasks of a submission, as is `(task_id, rollout_index)` among its rows."""
    rollout_index: int = 0
    group_id: int | str | None = None
    """Rollouts that are compared with each other; None: those of the same task."""
    sampling: JsonObject = {}
    """Merged over the row's `responses_create_params` (`temperature`, `max_output_tokens`, …)."""
    seed: int | None = None
    """Goes to the endpoint with every model call of the rollout."""
    priority: int = 0
    """Higher ones are started first; among equals, those that were asked for first."""
    deadline_s: float | None = None
    """By when it must have ended, its waiting and all its attempts included, in seconds from its
    submission; None leaves it to the limits of the client."""

    @property
    def key(self) -> Key:
        """Its identity."""
        return Key(self.task_id, self.rollout_index)

    @property
    def group(self) -> int | str:
        """The group it belongs to."""
        return self.task_id if self.group_id is None else self.group_id


_RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "row": MAPPING,
        "task_id": NAME,
        "rollout_index": whole(0),
        "group_id": NAME.or_none(),
        "sampling": MAPPING,
        "seed": whole().or_none(),
        "priority": whole(),
        "deadline_s": SECONDS.or_none(),
    }
)


def requests_in(requests: Iterable[RolloutRequest]) -> list[RolloutRequest]:
    """The requests as a list. Raises InputDataError for what is no list of them, or is empty."""
    if isinstance(requests, Iterable) and not isinstance(requests, Mapping | str | bytes):
        all_requests = list(requests)
        strange = [
            index
            for index, request in enumerate(all_requests)
            if not isinstance(request, RolloutRequest)
        ]
        if not all_requests:
            raise InputDataError(
                "no rollout is asked for: the list of requests is empty",
                hint="look for what made it empty (a filter, a dataset that has ended): training "
                "on nothing would look like an epoch",
            )
        if not strange:
            return all_requests
        first_strange = f"requests[{strange[0]}] is {shown(all_requests[strange[0]])}"
    else:
        first_strange = f"requests is {shown(requests)}"
    raise InputDataError(
        f"{first_strange}; rollouts are asked for by a list of RolloutRequest",
        hint="RolloutRequest(row=row, task_id=task, rollout_index=index)",
    )


def problem_of(request: RolloutRequest) -> str:
    """What is wrong with its fields, whatever fleet it is for; empty when nothing is."""
    return "; ".join(problems_in(request, _RULES))
