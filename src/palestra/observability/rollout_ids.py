"""The id of a rollout, as it stands in capture files and in the path of a request.

_ng_rollout_id of the row, else <task>-<rollout>, and -a<n> behind it from the second attempt
/ng-rollout/<id>/v1/responses
/ng-rollout/<id>/training-token-capture/v1/responses
"""

import re
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from palestra.errors import RowIdentity
from palestra.schema import ATTEMPT_INDEX, ROLLOUT_ID, ROLLOUT_INDEX, TASK_INDEX
from palestra.transport import current_call

ROLLOUT_ID_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""What an id consists of: a letter or digit, then letters, digits, `.`, `_` and `-`."""

ROLLOUT_SEGMENT: Final = "ng-rollout"
TOKEN_CAPTURE_SEGMENT: Final = "training-token-capture"  # noqa: S105  # part of a path

_PREFIXED: Final = re.compile(
    rf"/{ROLLOUT_SEGMENT}/(?P<id>{ROLLOUT_ID_PATTERN.pattern})"
    rf"(?P<tokens>/{TOKEN_CAPTURE_SEGMENT}(?=/|$))?(?P<path>/.*)?"
)

_ROW: Final = re.compile(r"(\d+)-(\d+)(?:-a(\d+))?")

_current: ContextVar[str | None] = ContextVar("palestra_rollout_id", default=None)
_tokens: ContextVar[bool | None] = ContextVar("palestra_rollout_tokens", default=None)


def rollout_id_of(body: Mapping[str, Any]) -> str | None:
    """Return the id of the rollout that a row or a request to `/run` belongs to.

    None: the body has neither an id nor both indices. Raises ValueError: its `_ng_rollout_id` is
    not an id.
    """
    own_id = body.get(ROLLOUT_ID)
    if own_id is not None:
        if not isinstance(own_id, str) or not ROLLOUT_ID_PATTERN.fullmatch(own_id):
            raise ValueError(
                f"{ROLLOUT_ID} {own_id!r} is not a rollout id: use a letter or digit first, then "
                "letters, digits, '.', '_' and '-'"
            )
        rollout_id = own_id
    elif body.get(TASK_INDEX) is None or body.get(ROLLOUT_INDEX) is None:
        return None
    else:
        rollout_id = f"{body[TASK_INDEX]}-{body[ROLLOUT_INDEX]}"
    return _with_attempt(rollout_id, body.get(ATTEMPT_INDEX) or 0)


def rollout_path_prefix(rollout_id: str | None, *, token_capture: bool = False) -> str:
    """Return the path prefix of a rollout's requests; "" without an id."""
    if not rollout_id:
        return ""
    prefix = f"/{ROLLOUT_SEGMENT}/{rollout_id}"
    return f"{prefix}/{TOKEN_CAPTURE_SEGMENT}" if token_capture else prefix


def apply_rollout_prefix(
    base_url: str, rollout_id: str | None, *, token_capture: bool = False
) -> str:
    """Return `base_url`, the root of a server, with the prefix of a rollout; unchanged without an
    id.
    """
    prefix = rollout_path_prefix(rollout_id, token_capture=token_capture)
    return f"{base_url.rstrip('/')}{prefix}" if prefix else base_url


@dataclass(frozen=True, slots=True)
class PrefixedPath:
    """A path that names its rollout. `path`: the remainder, which begins with `/`."""

    rollout_id: str
    path: str
    token_capture: bool

    @property
    def prefix(self) -> str:
        """The part of the path that names the rollout."""
        return rollout_path_prefix(self.rollout_id, token_capture=self.token_capture)


def prefixed_path(path: str) -> PrefixedPath | None:
    """Return the parts of a path with a rollout prefix; None when it has none."""
    match = _PREFIXED.fullmatch(path)
    if match is None:
        return None
    return PrefixedPath(match["id"], match["path"] or "/", match["tokens"] is not None)


def without_prefix(
    scope: MutableMapping[str, Any],
) -> tuple[MutableMapping[str, Any], PrefixedPath | None]:
    """Return an ASGI request without its rollout prefix, and the path that it came with; the
    request unchanged and None when it has no prefix.
    """
    prefixed = prefixed_path(scope["path"])
    if prefixed is None:
        return scope, None
    raw = scope.get("raw_path") or b""
    start = prefixed.prefix.encode()
    raw_path = (
        raw.removeprefix(start) or b"/" if raw.startswith(start) else quote(prefixed.path).encode()
    )
    return {**scope, "path": prefixed.path, "raw_path": raw_path}, prefixed


def row_of(rollout_id: str) -> RowIdentity | None:
    """Return the rollout that an id of the form `<task>-<rollout>[-a<n>]` names; None for others."""
    match = _ROW.fullmatch(rollout_id)
    if match is None:
        return None
    return RowIdentity(int(match[1]), int(match[2]), 1 + int(match[3] or 0))


def current_rollout_id() -> str | None:
    """Return the id of the rollout that the running request belongs to; None outside of one.

    It is the id in the path of the request, else the one that the caller's fleet sent.
    """
    return _current.get() or _rollout_of_call()


def current_call_wants_tokens() -> bool:
    """Whether the token ids of a model call made now belong to the rollout's training data.

    The path of the request says so. Without a prefix, it is every call but those of an environment,
    whose model is a judge.
    """
    by_path = _tokens.get()
    return not current_call().in_environment if by_path is None else by_path


def _rollout_of_call() -> str | None:
    call = current_call()
    if call.rollout_id:
        return call.rollout_id
    row = call.row
    if row is None or row.task is None or row.rollout is None:
        return None
    return _with_attempt(f"{row.task}-{row.rollout}", row.attempt - 1)


def _with_attempt(rollout_id: str, attempts_before: int) -> str:
    return f"{rollout_id}-a{attempts_before}" if attempts_before > 0 else rollout_id


@contextmanager
def rollout_context(rollout_id: str | None, *, token_capture: bool | None = None) -> Iterator[None]:
    """Return a context in which `rollout_id` is the current rollout.

    `token_capture`: whether the token ids of its model calls are captured; None: as around it.
    """
    wants_tokens = _tokens.get() if token_capture is None else token_capture
    id_token, tokens_token = _current.set(rollout_id), _tokens.set(wants_tokens)
    try:
        yield
    finally:
        _current.reset(id_token)
        _tokens.reset(tokens_token)
