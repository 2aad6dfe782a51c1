"""`nemo_gym.rollout_correlation`: the rollout that a request belongs to."""

from collections.abc import Mapping
from typing import Any, final

from pydantic import BaseModel

from palestra.observability import (
    ROLLOUT_ID_PATTERN,
    current_rollout_id,
    rollout_context,
    rollout_id_of,
    without_prefix,
)
from palestra.schema import ATTEMPT_INDEX, ROLLOUT_ID, ROLLOUT_INDEX, TASK_INDEX
from palestra.transport import ASGIApp

_IDENTITY = (ROLLOUT_ID, TASK_INDEX, ROLLOUT_INDEX, ATTEMPT_INDEX)


def maybe_rollout_id_from_run_body(body: Any) -> str | None:
    """Return the id of the rollout that the body of `/run`, a mapping or a model, belongs to.

    None: the body has neither an id nor both indices. Raises ValueError: its `_ng_rollout_id` is
    not an id.
    """
    if isinstance(body, BaseModel):
        return rollout_id_of(_identity(body))
    return rollout_id_of(body) if isinstance(body, Mapping) else None


def _identity(body: BaseModel) -> dict[str, Any]:
    # Not `model_dump`: a body holds a whole trajectory.
    names = {field.alias or name: name for name, field in type(body).model_fields.items()}
    fields = {key: getattr(body, names[key]) for key in _IDENTITY if key in names}
    extra = body.model_extra or {}
    return fields | {key: extra[key] for key in _IDENTITY if key in extra}


@final
class RolloutContextMiddleware:
    """ASGI middleware: `/ng-rollout/<id>/rest` becomes `/rest`, and the id is the current rollout
    while the request runs. Other paths pass unchanged.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        prefixed = None
        if scope["type"] in {"http", "websocket"}:
            scope, prefixed = without_prefix(scope)
        if prefixed is None:
            await self.app(scope, receive, send)
            return
        with rollout_context(prefixed.rollout_id, token_capture=prefixed.token_capture):
            await self.app(scope, receive, send)


__all__ = [
    "ROLLOUT_ID_PATTERN",
    "RolloutContextMiddleware",
    "current_rollout_id",
    "maybe_rollout_id_from_run_body",
    "rollout_context",
]
