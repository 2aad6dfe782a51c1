"""What authors subclass: servers, endpoints, sessions and tools, and how a server is called.

A server is an object with typed async methods and an ASGI app over them. `palestra.fleet` decides
in which process it runs.
"""

from palestra.server.agent import (
    Agent,
    AgentConfig,
    BoundAgent,
    BoundAgentConfig,
    ModelReference,
    ResourcesReference,
    ServerReference,
)
from palestra.server.author_calls import (
    VERIFY,
    Aside,
    AuthorCall,
    AuthorMethod,
    is_by_author,
    is_servers_file,
)
from palestra.server.author_classes import app_from, making, refuse_unfinished
from palestra.server.author_code import function_and_line
from palestra.server.authors_errors import (
    ESCAPES,
    TIME_LIMIT,
    AuthorsPlace,
    CalledExit,
    UnfitResult,
    ended_process,
    error_text,
    named_text,
    overran,
    stops_this_task,
    text_of,
)
from palestra.server.boundary import Boundary, SessionCookie
from palestra.server.caller import PREFIX_SCOPE_KEY
from palestra.server.capture import (
    TRAINING_RUN,
    TRAINING_TURNS,
    CapturedTurn,
    TrainingRun,
    TurnsTaken,
    TurnsWanted,
)
from palestra.server.endpoints import Endpoint, ToolFailure, with_faults
from palestra.server.environments.awaiting import refuse_judge
from palestra.server.environments.definition import EnvironmentDefinition
from palestra.server.environments.environment import Environment, call, class_of, environment
from palestra.server.environments.interface import EnvironmentConfig, Seeded
from palestra.server.environments.records import plain_row, rows_in, table_rows
from palestra.server.environments.rewards import Verdict, verdict_of
from palestra.server.environments.row_fields import explained_fields
from palestra.server.environments.server import EnvironmentServer, server_class_of
from palestra.server.environments.services import RolloutServices
from palestra.server.environments.task import read_only
from palestra.server.fronts.asked import without_tokens
from palestra.server.fronts.chat import completion_from_response, params_from_chat
from palestra.server.fronts.messages import (
    EVENT_STREAM,
    MessagesRequest,
    chat_events,
    message_events,
    message_from_response,
    params_from_messages,
)
from palestra.server.in_flight import IN_FLIGHT_PATH
from palestra.server.judging.comparing import SAME_SYSTEM, SAME_TEMPLATE
from palestra.server.judging.judge import Hearing, Judge, JudgeConfig, Ruling
from palestra.server.judging.questions import JudgeLabels, JudgeQuestion
from palestra.server.mcp import (
    MCP_PATH,
    TOKEN_HEADER,
    CallTool,
    McpDoor,
    NoSuchTool,
    ToolAnswer,
    own_name,
)
from palestra.server.model_server import (
    CHECK_PATH,
    NOT_ASKED,
    EndpointFacts,
    EndpointSaid,
    ModelServer,
    ModelServerConfig,
    ask_endpoint,
)
from palestra.server.own_errors import OwnErrors, authors_line, own_frames
from palestra.server.published import describe, published_schema
from palestra.server.refusals import RefusalEnvelopes
from palestra.server.resources_server import (
    INFERRED_REVERIFY_MODE,
    REPEATABLE,
    REVERIFY_MODE_PATH,
    ResourcesServer,
    ResourcesServerConfig,
    ReverifyMode,
    refuse_reward,
)
from palestra.server.reward_rules import WRONG_KINDS, RewardRules
from palestra.server.server import Server, ServerConfig
from palestra.server.sessions import (
    CLOSE_SESSION,
    SESSION_ID_KEY,
    Session,
    SessionStore,
    ToolFault,
)
from palestra.server.tools import ToolError, arguments_model, tool, tool_schema
from palestra.server.turns import Episode, Opening, Step, StepRequest, TurnsServer, no_episode

__all__ = [
    "CHECK_PATH",
    "CLOSE_SESSION",
    "ESCAPES",
    "EVENT_STREAM",
    "INFERRED_REVERIFY_MODE",
    "IN_FLIGHT_PATH",
    "MCP_PATH",
    "NOT_ASKED",
    "PREFIX_SCOPE_KEY",
    "REPEATABLE",
    "REVERIFY_MODE_PATH",
    "SAME_SYSTEM",
    "SAME_TEMPLATE",
    "SESSION_ID_KEY",
    "TIME_LIMIT",
    "TOKEN_HEADER",
    "TRAINING_RUN",
    "TRAINING_TURNS",
    "VERIFY",
    "WRONG_KINDS",
    "Agent",
    "AgentConfig",
    "Aside",
    "AuthorCall",
    "AuthorMethod",
    "AuthorsPlace",
    "BoundAgent",
    "BoundAgentConfig",
    "Boundary",
    "CallTool",
    "CalledExit",
    "CapturedTurn",
    "Endpoint",
    "EndpointFacts",
    "EndpointSaid",
    "Environment",
    "EnvironmentConfig",
    "EnvironmentDefinition",
    "EnvironmentServer",
    "Episode",
    "Hearing",
    "Judge",
    "JudgeConfig",
    "JudgeLabels",
    "JudgeQuestion",
    "McpDoor",
    "MessagesRequest",
    "ModelReference",
    "ModelServer",
    "ModelServerConfig",
    "NoSuchTool",
    "Opening",
    "OwnErrors",
    "RefusalEnvelopes",
    "ResourcesReference",
    "ResourcesServer",
    "ResourcesServerConfig",
    "ReverifyMode",
    "RewardRules",
    "RolloutServices",
    "Ruling",
    "Seeded",
    "Server",
    "ServerConfig",
    "ServerReference",
    "Session",
    "SessionCookie",
    "SessionStore",
    "Step",
    "StepRequest",
    "ToolAnswer",
    "ToolError",
    "ToolFailure",
    "ToolFault",
    "TrainingRun",
    "TurnsServer",
    "TurnsTaken",
    "TurnsWanted",
    "UnfitResult",
    "Verdict",
    "app_from",
    "arguments_model",
    "ask_endpoint",
    "authors_line",
    "call",
    "chat_events",
    "class_of",
    "completion_from_response",
    "describe",
    "ended_process",
    "environment",
    "error_text",
    "explained_fields",
    "function_and_line",
    "is_by_author",
    "is_servers_file",
    "making",
    "message_events",
    "message_from_response",
    "named_text",
    "no_episode",
    "overran",
    "own_frames",
    "own_name",
    "params_from_chat",
    "params_from_messages",
    "plain_row",
    "published_schema",
    "read_only",
    "refuse_judge",
    "refuse_reward",
    "refuse_unfinished",
    "rows_in",
    "server_class_of",
    "stops_this_task",
    "table_rows",
    "text_of",
    "tool",
    "tool_schema",
    "verdict_of",
    "with_faults",
    "without_tokens",
]
