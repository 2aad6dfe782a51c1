"""What authors subclass: servers, their endpoints, sessions and tools; how a server is called.

A server is an object with typed async methods and an ASGI app over them; where it lives is decided
by `palestra.fleet`.
"""

from palestra.server.agent import (
    Agent,
    AgentConfig,
    BoundAgent,
    BoundAgentConfig,
    ServerReference,
)
from palestra.server.aside import (
    Aside,
)
from palestra.server.authoring import (
    Environment,
    FunctionServer,
    environment,
    server_class_of,
)
from palestra.server.capture import (
    TRAINING_RUN,
    TRAINING_TURNS,
    CapturedTurn,
    TrainingRun,
    TurnsTaken,
    TurnsWanted,
)
from palestra.server.endpoint_check import (
    EndpointSaid,
    ask_endpoint,
)
from palestra.server.endpoints import (
    Endpoint,
)
from palestra.server.fronts import (
    TOKEN_FIELDS,
    without_tokens,
)
from palestra.server.in_flight import (
    IN_FLIGHT_PATH,
)
from palestra.server.judging import (
    Hearing,
    Judge,
    JudgeConfig,
    Labels,
    Question,
    Ruling,
)
from palestra.server.model_server import (
    CHECK_PATH,
    EndpointFacts,
    ModelServer,
    ModelServerConfig,
)
from palestra.server.resources_server import (
    REPEATABLE,
    ResourcesServer,
    ResourcesServerConfig,
    ReverifyMode,
)
from palestra.server.reward_rules import (
    WRONG_KINDS,
    RewardRules,
)
from palestra.server.server import (
    Server,
    ServerConfig,
)
from palestra.server.sessions import (
    SESSION_ID_KEY,
    Session,
)
from palestra.server.tools import (
    ToolError,
    tool,
    tool_schema,
)
from palestra.server.turns import (
    Episode,
    Opening,
    Step,
    StepRequest,
    TurnsServer,
)

__all__ = [
    "CHECK_PATH",
    "IN_FLIGHT_PATH",
    "REPEATABLE",
    "SESSION_ID_KEY",
    "TOKEN_FIELDS",
    "TRAINING_RUN",
    "TRAINING_TURNS",
    "WRONG_KINDS",
    "Agent",
    "AgentConfig",
    "Aside",
    "BoundAgent",
    "BoundAgentConfig",
    "CapturedTurn",
    "Endpoint",
    "EndpointFacts",
    "EndpointSaid",
    "Environment",
    "Episode",
    "FunctionServer",
    "Hearing",
    "Judge",
    "JudgeConfig",
    "Labels",
    "ModelServer",
    "ModelServerConfig",
    "Opening",
    "Question",
    "ResourcesServer",
    "ResourcesServerConfig",
    "ReverifyMode",
    "RewardRules",
    "Ruling",
    "Server",
    "ServerConfig",
    "ServerReference",
    "Session",
    "Step",
    "StepRequest",
    "ToolError",
    "TrainingRun",
    "TurnsServer",
    "TurnsTaken",
    "TurnsWanted",
    "ask_endpoint",
    "environment",
    "server_class_of",
    "tool",
    "tool_schema",
    "without_tokens",
]
