"""Why a model call failed, in one word that fits every model server.

| category | cause |
|---|---|
| timeout | status 408 or 504, or a deadline |
| rate_limit | status 429 |
| auth | status 401 or 403 |
| not_found | status 404 |
| client_error | another status from 400 to 499 |
| upstream_error | a status from 500 on, or an answer that reports an error |
| connection | the endpoint could not be reached, or closed the connection |
| exception | the server's own code failed |
| incomplete | the call was stopped before it had an answer |
| stream_truncated | the event stream has no last event |
| capture_parse_error | the answer is not JSON |
"""

import asyncio
from enum import StrEnum

from palestra.errors import CallError, status_for
from palestra.schema import JsonObject
from palestra.transport import ConnectionFailed


class ErrorCategory(StrEnum):
    """Why a model call failed; see the table of this module."""

    TIMEOUT = "timeout"
    RATE_LIMIT = "rate_limit"
    AUTH = "auth"
    NOT_FOUND = "not_found"
    CLIENT_ERROR = "client_error"
    UPSTREAM_ERROR = "upstream_error"
    CONNECTION = "connection"
    EXCEPTION = "exception"
    INCOMPLETE = "incomplete"
    STREAM_TRUNCATED = "stream_truncated"
    CAPTURE_PARSE_ERROR = "capture_parse_error"


_OF_STATUS = {
    401: ErrorCategory.AUTH,
    403: ErrorCategory.AUTH,
    404: ErrorCategory.NOT_FOUND,
    408: ErrorCategory.TIMEOUT,
    429: ErrorCategory.RATE_LIMIT,
    504: ErrorCategory.TIMEOUT,
}


def category_of_status(status: int) -> ErrorCategory | None:
    """Return the category of an HTTP status; None below 400."""
    if status < 400:
        return None
    default = ErrorCategory.CLIENT_ERROR if status < 500 else ErrorCategory.UPSTREAM_ERROR
    return _OF_STATUS.get(status, default)


def category_of_exception(error: BaseException) -> ErrorCategory:
    """Return the category of an exception that ended a call."""
    if isinstance(error, asyncio.CancelledError):
        return ErrorCategory.INCOMPLETE
    if isinstance(error, TimeoutError):
        return ErrorCategory.TIMEOUT
    if isinstance(error, ConnectionFailed | ConnectionError):
        return ErrorCategory.CONNECTION
    if isinstance(error, CallError):
        return category_of_status(_endpoint_status(error)) or ErrorCategory.EXCEPTION
    status = getattr(error, "status", None) or getattr(error, "status_code", None)
    by_status = category_of_status(status) if isinstance(status, int) else None
    return by_status or ErrorCategory.EXCEPTION


def category_of_answer(answer: JsonObject) -> ErrorCategory | None:
    """Return the category of an answer that reports an error in spite of its status; else None."""
    failed = bool(answer.get("error")) or answer.get("status") == "failed"
    return ErrorCategory.UPSTREAM_ERROR if failed else None


def _endpoint_status(error: CallError) -> int:
    """Return the status of the innermost server, which is the endpoint if it answered."""
    statuses = [hop.status for hop in error.evidence.hops if hop.status is not None]
    return statuses[-1] if statuses else error.status or status_for(error)
