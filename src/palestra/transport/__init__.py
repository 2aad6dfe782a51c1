"""Calls between the parts of a fleet: in-process or over HTTP, through one `ServerClient`.

Every call carries its rollout's identity and deadline. Every failure is raised as one of the errors
of `palestra.errors`, with the servers that it passed through.
"""

from palestra.transport.answered import AnsweredRollouts
from palestra.transport.client import BodyReader, ServerClient, ServerReply
from palestra.transport.context import (
    Activity,
    CallContext,
    calling,
    context_from_headers,
    context_headers,
    current_call,
    new_id,
)
from palestra.transport.h1.client import HttpClient
from palestra.transport.http import (
    CONNECTOR_LIMIT,
    CertificateRejected,
    ConnectionFailed,
    HttpReply,
    HttpRequest,
    HttpTransport,
    RequestRefused,
    WrongUrl,
    cookie_header,
    parse_set_cookies,
)
from palestra.transport.local import (
    IN_PROCESS_CLIENT,
    SESSION_SCOPE_KEY,
    ASGIApp,
    LocalEndpoint,
    LocalServer,
    Target,
    call_asgi,
)
from palestra.transport.patience import Patience, Refusals, within_call_limit
from palestra.transport.peer import RESERVED_PATHS, Peer, tool_failure_text
from palestra.transport.retry import (
    BUSY_STATUSES,
    PLAN,
    WITHIN_FLEET,
    RetryCount,
    RetryPolicy,
    retry_after_s,
    with_retries,
)
from palestra.transport.unverified import (
    add_verify_request,
    encoded_with,
    fault_of,
    fields_of_request,
    note_verify_request,
)
from palestra.transport.workers import worker_cookie, worker_url

__all__ = [
    "BUSY_STATUSES",
    "CONNECTOR_LIMIT",
    "IN_PROCESS_CLIENT",
    "PLAN",
    "RESERVED_PATHS",
    "SESSION_SCOPE_KEY",
    "WITHIN_FLEET",
    "ASGIApp",
    "Activity",
    "AnsweredRollouts",
    "BodyReader",
    "CallContext",
    "CertificateRejected",
    "ConnectionFailed",
    "HttpClient",
    "HttpReply",
    "HttpRequest",
    "HttpTransport",
    "LocalEndpoint",
    "LocalServer",
    "Patience",
    "Peer",
    "Refusals",
    "RequestRefused",
    "RetryCount",
    "RetryPolicy",
    "ServerClient",
    "ServerReply",
    "Target",
    "WrongUrl",
    "add_verify_request",
    "call_asgi",
    "calling",
    "context_from_headers",
    "context_headers",
    "cookie_header",
    "current_call",
    "encoded_with",
    "fault_of",
    "fields_of_request",
    "new_id",
    "note_verify_request",
    "parse_set_cookies",
    "retry_after_s",
    "tool_failure_text",
    "with_retries",
    "within_call_limit",
    "worker_cookie",
    "worker_url",
]
