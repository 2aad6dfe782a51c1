"""Calls between the parts of a fleet: in-process or over HTTP, through one `ServerClient`.

Every call carries its rollout's identity and deadline. Every failure is raised as one of the errors
of `palestra.errors`, with the servers that it passed through.
"""

from palestra.transport.answered import AnsweredRollouts
from palestra.transport.blocked import BlockedServer
from palestra.transport.client import BodyReader, ServerClient, ServerReply
from palestra.transport.context import (
    Activity,
    AwaitedCall,
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
    IN_PROCESS,
    IN_PROCESS_CLIENT,
    SESSION_SCOPE_KEY,
    ASGIApp,
    LocalEndpoint,
    LocalServer,
    Target,
    call_asgi,
)
from palestra.transport.patience import Patience, Refusals, within_call_limit
from palestra.transport.peer import Peer, awaiting, tool_failure_text
from palestra.transport.retry import (
    BUSY_STATUSES,
    PLAN,
    REPORT_EVERY_S,
    WITHIN_FLEET,
    RetryCount,
    RetryPolicy,
    RetryReport,
    retry_after_s,
    with_retries,
)
from palestra.transport.tool_paths import is_tool_path, no_such_tool, tool_path
from palestra.transport.unanswered import (
    REWARD_PATHS,
    UnansweredQuestions,
    asking,
    note_answered,
    note_unanswered,
    noting_questions,
)
from palestra.transport.unverified import (
    add_verify_request,
    encoded_with,
    fault_of,
    fields_of_request,
    note_tool_failures,
    note_verify_request,
)
from palestra.transport.workers import worker_cookie, worker_url

__all__ = [
    "BUSY_STATUSES",
    "CONNECTOR_LIMIT",
    "IN_PROCESS",
    "IN_PROCESS_CLIENT",
    "PLAN",
    "REPORT_EVERY_S",
    "REWARD_PATHS",
    "SESSION_SCOPE_KEY",
    "WITHIN_FLEET",
    "ASGIApp",
    "Activity",
    "AnsweredRollouts",
    "AwaitedCall",
    "BlockedServer",
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
    "RetryReport",
    "ServerClient",
    "ServerReply",
    "Target",
    "UnansweredQuestions",
    "WrongUrl",
    "add_verify_request",
    "asking",
    "awaiting",
    "call_asgi",
    "calling",
    "context_from_headers",
    "context_headers",
    "cookie_header",
    "current_call",
    "encoded_with",
    "fault_of",
    "fields_of_request",
    "is_tool_path",
    "new_id",
    "no_such_tool",
    "note_answered",
    "note_tool_failures",
    "note_unanswered",
    "note_verify_request",
    "noting_questions",
    "parse_set_cookies",
    "retry_after_s",
    "tool_failure_text",
    "tool_path",
    "with_retries",
    "within_call_limit",
    "worker_cookie",
    "worker_url",
]
