"""Converts requests to jobs for agents. Rejects rows that cannot be run, and duplicates."""

import itertools
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from palestra.datasets import DoorKeeper
from palestra.errors import InputDataError
from palestra.rollouts import with_seed
from palestra.schema import (
    AGENT_REF,
    CREATE_PARAMS,
    ROLLOUT_INDEX,
    TASK_INDEX,
    RolloutKey,
    encode_json,
)
from palestra.training.checks import require, shown, whole
from palestra.training.jobs import TrainingJob
from palestra.training.requests import Key, RolloutRequest, problem_of, requests_in
from palestra.training.servers import agent_for

FIRST_NAMED_TASK: Final = 1 << 40
"""The first number for tasks whose id is text, far above usual task numbers."""
SHOWN: Final = 20


class RowIntake(Protocol):
    """Reads the row that a request sends."""

    def sent(self, request: RolloutRequest, task: int, /) -> tuple[str, dict[str, Any], int]:
        """Return a request's agent, the row to send to it, and the row's size in bytes.

        Raises InputDataError, TypeError or ValueError: the row cannot be run.
        """
        ...


@dataclass(frozen=True, slots=True)
class RowTakers:
    """The agents that rows may name, and the checks of the rows that their servers accept."""

    names: frozenset[str]
    default: str
    """The agent for rows that name none; empty: there is no default."""
    keepers: Mapping[str, DoorKeeper]
    """The check for each agent's rows, by agent name."""

    def sent(self, request: RolloutRequest, task: int, /) -> tuple[str, dict[str, Any], int]:
        """Return a request's agent, the row to send to it, and the row's size in bytes.

        Raises InputDataError, TypeError or ValueError: the row cannot be run.
        """
        agent = agent_for(request.row, self.default)
        problem = _problem(request, agent, self.names)
        if problem:
            raise InputDataError(problem)
        row = _row(request, task, agent)
        encoded = encode_json(row)
        if rejected := _rejected(self.keepers.get(agent), encoded):
            raise InputDataError(rejected)
        return agent, row, len(encoded)


def jobs_of(
    requests: Iterable[RolloutRequest],
    reader: RowIntake,
    *,
    run: str,
    numbers: Callable[[], int],
    now: float,
    deadline_s: float | None,
) -> list[TrainingJob]:
    """Return a job for each request. Raises InputDataError, listing every request that cannot be
    run.
    """
    accepted, problems = distinct_requests(requests)
    task_numbers = _numbered(accepted)
    jobs: list[TrainingJob] = []
    for request in accepted:
        task_id = request.task_id
        task = task_numbers[task_id] if isinstance(task_id, str) else task_id
        try:
            agent, row, size = reader.sent(request, task)
        except (InputDataError, TypeError, ValueError) as error:
            problems.append(f"{request.key}: {error}")
            continue
        jobs.append(
            TrainingJob(
                key=RolloutKey(task, request.rollout_index),
                agent=agent,
                row=row,
                request=request,
                size=size,
                run=run,
                number=numbers(),
                submitted=now,
                deadline=_earliest(now, request.deadline_s, deadline_s),
            )
        )
    if problems:
        raise refusal(problems)
    return jobs


def distinct_requests(
    requests: Iterable[RolloutRequest],
) -> tuple[list[RolloutRequest], list[str]]:
    """Return the requests whose fields are valid, and what is wrong with the others: a field, or a
    key that occurs twice.

    Raises InputDataError: it is not a list of requests, or is empty.
    """
    problems: list[str] = []
    accepted: dict[Key, RolloutRequest] = {}
    for index, request in enumerate(requests_in(requests)):
        # Before anything is made of it: a key of any other kind could not even be compared.
        wrong = problem_of(request)
        if wrong:
            problems.append(f"requests[{index}]: {wrong}")
        elif request.key in accepted:
            problems.append(f"{request.key} is asked for twice")
        else:
            accepted[request.key] = request
    return list(accepted.values()), problems


def refusal(problems: Sequence[str]) -> InputDataError:
    """Return the error that lists the requests that cannot be run."""
    addition = f"\n  and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
    listed = "".join(f"\n  {problem}" for problem in problems[:SHOWN])
    return InputDataError(
        f"{len(problems)} of the rollouts asked for cannot be run:{listed}{addition}"
    )


def _numbered(requests: Iterable[RolloutRequest]) -> dict[str, int]:
    """Return a number for each task whose id is text, different from all other task numbers."""
    names = dict.fromkeys(request.task_id for request in requests)
    free = (number for number in itertools.count(FIRST_NAMED_TASK) if number not in names)
    return {name: next(free) for name in names if isinstance(name, str)}


def _problem(request: RolloutRequest, agent: str, known_agents: frozenset[str]) -> str:
    if not isinstance(request.row.get(CREATE_PARAMS), Mapping):
        return f"its row has no {CREATE_PARAMS}"
    if not agent:
        return "its row names no agent (`agent_ref`), and the client has none for it"
    if agent not in known_agents:
        return f"no agent is named {agent!r} (there is {', '.join(sorted(known_agents)) or 'none'})"
    return ""


def _rejected(keeper: DoorKeeper | None, encoded: bytes) -> str:
    """Return the parts of a row that its servers would reject; "" when they accept it."""
    if keeper is None:
        return ""
    row = msgspec.json.decode(encoded)
    return "" if keeper.admits(row) else "; ".join(keeper.problems(row))


def _row(request: RolloutRequest, task: int, agent: str) -> dict[str, Any]:
    params: Mapping[str, Any] = {**request.row[CREATE_PARAMS], **request.sampling}
    if request.seed is not None:
        params = with_seed(params, request.seed)
    return {
        **request.row,
        CREATE_PARAMS: params,
        AGENT_REF: request.row.get(AGENT_REF) or {"name": agent},
        TASK_INDEX: task,
        ROLLOUT_INDEX: request.rollout_index,
    }


def _earliest(now: float, *limits_s: float | None) -> float | None:
    set_limits = [limit_s for limit_s in limits_s if limit_s is not None]
    return now + min(set_limits) if set_limits else None


def check_group_sizes(sizes: Mapping[int | str, int], size: int) -> None:
    """Raise InputDataError when a group of a submission does not have `size` members."""
    require("the size of groups", size, whole(1))
    odd_sizes = {group: count for group, count in sizes.items() if count != size}
    if odd_sizes:
        group, count = next(iter(odd_sizes.items()))
        raise InputDataError(
            f"{len(odd_sizes)} groups do not have {size} members; {group!r} has {count}"
        )


def keys_among(keys: Iterable[Key] | None, requested: Container[Key]) -> set[Key] | None:
    """Return the keys of rollouts to cancel, which may be plain pairs; None stands for all.

    Raises InputDataError: these are no keys, or keys that were not requested.
    """
    if keys is None:
        return None
    wanted_keys = _keys(keys)
    strange = [str(key) for key in wanted_keys if key not in requested]
    if strange:
        raise InputDataError(
            f"these rollouts are not in this submission: {', '.join(sorted(strange)[:SHOWN])}"
        )
    return wanted_keys


def _keys(keys_argument: object) -> set[Key]:
    if isinstance(keys_argument, Iterable) and not isinstance(keys_argument, str | Key):
        keys = list(keys_argument)
        if all(isinstance(key, tuple) and len(key) == len(Key._fields) for key in keys):
            return {Key(*key) for key in keys}
    raise InputDataError(
        f"keys is {shown(keys_argument)}; it must be a list of keys",
        hint="cancel([outcome.key]), or cancel([Key(task_id, rollout_index)])",
    )
