"""Records which rollouts a model has answered. If a model has answered before, a full context ends
the rollout as truncated; if not, it is an error.

The conversation alone does not show this: an agent may start a new one inside a rollout, and a row
may contain an assistant's turn that the model continues.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final, final

from palestra.config import MASK, is_secret_name
from palestra.errors import RowIdentity, excerpt
from palestra.schema import encode_json
from palestra.transport.context import CallContext

SCHEMA_PATH = "/openapi.json"
_PRIVATE = frozenset({"cookie", "set-cookie"})


def exchange_line(
    method: str,
    url: str,
    row: RowIdentity | None,
    headers: Mapping[str, str],
    request: Any,
    status: int | None,
    answer: str,
) -> str:
    """Return a log line with a request (the JSON body as `kwargs`) and its answer. Secret headers
    are masked.

    `status` is None when there was no answer; `answer` is then the reason. The content of a
    published schema is left out. The line of a failed request has the words that NeMo Gym's
    debugging guide uses.
    """
    failed = status is None or status >= 400
    visible_headers = {
        name: MASK if is_secret_name(name) or name.lower() in _PRIVATE else value
        for name, value in headers.items()
    }
    body = request if isinstance(request, bytes) else encode_json(request)
    info = (
        f"{method} {url} status={'none' if status is None else status} "
        f"row={_json(None if row is None else asdict(row))} headers={_json(visible_headers)}"
    )
    kwargs, content = _one_line(excerpt(body)), _one_line(answer)
    if failed:
        return (
            f"request failed: Request info: {info} Request kwargs: {kwargs} "
            f"Response content: {content}"
        )
    if url.partition("?")[0].endswith(SCHEMA_PATH):
        content = "(a schema, left out)"
    return f"request answered: {info} kwargs={kwargs} response={content}"


def _json(value: Any) -> str:
    return encode_json(value).decode()


def _one_line(text: str) -> str:
    return text.replace("\r", "\\r").replace("\n", "\\n")


MOST_ROLLOUTS: Final = 100_000
"""The largest number of rollouts recorded in one process, about 20 MB. The oldest are dropped."""


ONE_DEADLINE_S: Final = 10.0
"""Deadlines that differ by fewer seconds belong to the same attempt: each process on the way takes
half a second off, and another attempt begins later than that."""

_Attempt = tuple[str, int | str | None, int | None, int]


@final
class AnsweredRollouts:
    """The rollouts whose policy has answered in this process, each attempt separately."""

    def __init__(
        self, *, sees_all: Callable[[], bool] = lambda: True, most_rollouts: int = MOST_ROLLOUTS
    ) -> None:
        """`sees_all`: returns whether no other process calls models for these rollouts."""
        self._sees_all = sees_all
        self._most = most_rollouts
        # A dict of which the oldest are deleted passes over each of them again to find the next.
        self._answered: OrderedDict[_Attempt, float | None] = OrderedDict()
        """With the attempt's deadline: a run that is made again has the same names."""
        self._forgot = False

    def note(self, context: CallContext) -> None:
        """Record that a model answered this call. Calls by an environment are ignored: their model
        is a judge.
        """
        row = context.row
        if row is None or not row.run or context.in_environment:
            return
        key = (row.run, row.task, row.rollout, row.attempt)
        self._answered.pop(key, None)
        self._answered[key] = context.deadline
        if len(self._answered) > self._most:
            self._answered.popitem(last=False)
            self._forgot = True

    def knows(self, context: CallContext) -> bool | None:
        """Whether a model has answered in the rollout; None when this is unknown.

        Unknown cases: the call names no run, the record of the rollout may have been dropped, or
        another process may have answered it.
        """
        row = context.row
        if row is None or not row.run:
            return None
        key = (row.run, row.task, row.rollout, row.attempt)
        if key in self._answered:
            return True if _is_near(self._answered[key], context.deadline) else None
        return None if self._forgot or not self._sees_all() else False


def _is_near(deadline: float | None, known_deadline: float | None) -> bool:
    return (
        deadline is None
        or known_deadline is None
        or abs(deadline - known_deadline) < ONE_DEADLINE_S
    )
