"""The prefix `/ng-rollout/<id>` of a path, in an app that has routes with it."""

from collections.abc import Sequence
from typing import Any, final

from starlette.routing import BaseRoute, Match

from palestra.observability import prefixed_path, rollout_context
from palestra.server import PREFIX_SCOPE_KEY
from palestra.transport import ASGIApp


@final
class RolloutPrefixLayer:
    """ASGI middleware: the rollout in a path's prefix is the current one.

    A fleet takes the prefix away. A path gets it back when one of the app's `routes` has it, so
    that the handler finds `rollout_id` in `request.path_params`.
    """

    def __init__(self, app: ASGIApp, *, routes: Sequence[BaseRoute]) -> None:
        self._app = app
        self._routes = [r for r in routes if "{rollout_id" in getattr(r, "path", "")]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        prefix = scope.get(PREFIX_SCOPE_KEY)
        if prefix is not None:
            await self._app(self._with_prefix(prefix, scope), receive, send)
            return
        prefixed = prefixed_path(scope.get("path", ""))
        if prefixed is None:
            await self._app(scope, receive, send)
            return
        with rollout_context(prefixed.rollout_id, token_capture=prefixed.token_capture):
            await self._app(scope, receive, send)

    def _with_prefix(self, prefix: str, scope: Any) -> Any:
        path, raw_path = f"{prefix}{scope['path']}", prefix.encode() + scope["raw_path"]
        prefixed = {**scope, "path": path, "raw_path": raw_path}
        is_served = any(route.matches(prefixed)[0] is Match.FULL for route in self._routes)
        return prefixed if is_served else scope
