"""How parts of a fleet call each other: in-process or over HTTP, behind one `ServerClient`.

Every call carries its rollout's identity and deadline; every failure comes back as one of the
errors of `palestra.errors`, with the servers that it passed through.
"""

from palestra.transport.client import BodyReader, Peer, ServerClient, ServerReply, Target
from palestra.transport.context import (
    Activity,
    CallContext,
    calling,
    context_from_headers,
    context_headers,
    current_call,
)
from palestra.transport.http import (
    AiohttpTransport,
    ConnectionFailed,
    HttpReply,
    HttpTransport,
    parse_set_cookies,
)
from palestra.transport.ids import new_id
from palestra.transport.local import (
    IN_PROCESS_CLIENT,
    SESSION_SCOPE_KEY,
    ASGIApp,
    LocalEndpoint,
    LocalServer,
    call_asgi,
)
from palestra.transport.retry import (
    BUSY_STATUSES,
    WITHIN_FLEET,
    RetryCount,
    RetryPolicy,
    with_retries,
)
from palestra.transport.workers import worker_cookie, worker_url

__all__ = [
    "BUSY_STATUSES",
    "IN_PROCESS_CLIENT",
    "SESSION_SCOPE_KEY",
    "WITHIN_FLEET",
    "ASGIApp",
    "Activity",
    "AiohttpTransport",
    "BodyReader",
    "CallContext",
    "ConnectionFailed",
    "HttpReply",
    "HttpTransport",
    "LocalEndpoint",
    "LocalServer",
    "Peer",
    "RetryCount",
    "RetryPolicy",
    "ServerClient",
    "ServerReply",
    "Target",
    "call_asgi",
    "calling",
    "context_from_headers",
    "context_headers",
    "current_call",
    "new_id",
    "parse_set_cookies",
    "with_retries",
    "worker_cookie",
    "worker_url",
]
