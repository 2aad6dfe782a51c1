"""The rollouts that a trainer requests: one `RolloutRequest` for each."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from palestra.errors import InputDataError
from palestra.schema import JsonObject
from palestra.training.checks import MAPPING, NAME, SECONDS, Rule, problems_in, shown, whole


class Key(NamedTuple):
    """Identifies a rollout: its task and its index. Outcomes, errors and logs name rollouts by this
    key.
    """

    task_id: int | str
    rollout_index: int

    def __str__(self) -> str:
        return f"{self.task_id}:{self.rollout_index}"


class RolloutRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One requested rollout. `row`: the task row of the dataset, which is not changed."""

    row: JsonObject
    """The task row: `responses_create_params`, the verifier's fields, and `agent_ref` unless the
    client names an agent."""
    task_id: int | str
    """Unique for each task of a submission; `(task_id, rollout_index)` must be unique for each
    rollout."""
    rollout_index: int = 0
    group_id: int | str | None = None
    """The group of rollouts that are compared with each other; None: the rollouts of the same task.
    """
    sampling: JsonObject = {}
    """Sampling parameters that override the row's `responses_create_params` (`temperature`,
    `max_output_tokens`, …)."""
    seed: int | None = None
    """The seed that every model call of the rollout sends to the endpoint."""
    priority: int = 0
    """Rollouts with a higher priority start first; with equal priority, the earlier request."""
    deadline_s: float | None = None
    """The time in which the rollout must end, in seconds from its submission, including waiting and
    all attempts. None: only the client's limits apply."""

    @property
    def key(self) -> Key:
        """The key of the rollout: task id and rollout index."""
        return Key(self.task_id, self.rollout_index)

    @property
    def group(self) -> int | str:
        """The group of the rollout: `group_id`, or else the task id."""
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
    """Return the requests as a list. Raises InputDataError: it is not a list of requests, or is
    empty.
    """
    if isinstance(requests, Iterable) and not isinstance(requests, Mapping | str | bytes):
        all_requests = list(requests)
        strange = [
            index
            for index, request in enumerate(all_requests)
            if not isinstance(request, RolloutRequest)
        ]
        if not all_requests:
            raise InputDataError(
                "the list of requests is empty, so there is no rollout to run",
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
    """Return what is wrong with the request's fields, for any fleet; "" when nothing is."""
    return "; ".join(problems_in(request, _RULES))
