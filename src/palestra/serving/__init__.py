"""Servers and fleets: base classes to write one, placements to run many.

A server is an object with typed async methods and an ASGI app over them; where it lives
(embedded in this process, in a process of its own, or remote) is decided by the fleet.
"""

from palestra.serving.agent import (
    Agent,
    AgentConfig,
    BoundAgent,
    BoundAgentConfig,
    ServerReference,
)
from palestra.serving.aside import Aside
from palestra.serving.assembled import Assembly, assembled
from palestra.serving.attach import AttachedFleet, ForeignFleet, NoFleet, attach
from palestra.serving.authoring import Environment, FunctionServer, environment, server_class_of
from palestra.serving.build import build_server, http_transport, server_client
from palestra.serving.capture import (
    TRAINING_RUN,
    TRAINING_TURNS,
    CapturedTurn,
    TrainingRun,
    TurnsTaken,
    TurnsWanted,
)
from palestra.serving.child import Child, Ending
from palestra.serving.endpoint_check import EndpointSaid, ask_endpoint
from palestra.serving.endpoints import Endpoint
from palestra.serving.file_rows import FileRows, file_rows
from palestra.serving.fleet import EMBEDDED, PROCESS, REMOTE, Fleet
from palestra.serving.fronts import TOKEN_FIELDS, without_tokens
from palestra.serving.garbage import rare_collections
from palestra.serving.head import check_head_port, head_server
from palestra.serving.head_address import HeadAddress
from palestra.serving.importing import START_TIMEOUT, start_timeout_of, starting_within
from palestra.serving.in_flight import IN_FLIGHT_PATH
from palestra.serving.instance import STUCK_AFTER_S, RunningInstance, State
from palestra.serving.judging import Hearing, Judge, JudgeConfig, Labels, Question, Ruling
from palestra.serving.loading import load_environment, load_module, load_server_class
from palestra.serving.model_server import (
    CHECK_PATH,
    EndpointFacts,
    ModelServer,
    ModelServerConfig,
)
from palestra.serving.resources_server import (
    REPEATABLE,
    ResourcesServer,
    ResourcesServerConfig,
    ReverifyMode,
)
from palestra.serving.reward_rules import WRONG_KINDS, RewardRules
from palestra.serving.runfile import read_ended_fleet, run_dir
from palestra.serving.server import Server, ServerConfig
from palestra.serving.sessions import SESSION_ID_KEY, Session
from palestra.serving.sockets import LOOPBACK, raise_descriptor_limit
from palestra.serving.status import ServerStatus, probe, summary_line
from palestra.serving.task_dump import dumping_tasks
from palestra.serving.tools import ToolError, tool, tool_schema
from palestra.serving.turns import Episode, Opening, Step, StepRequest, TurnsServer
from palestra.serving.venvs import (
    cache_root,
    interpreter_for,
    made_interpreter,
    place_of,
    requirements_of,
    unsatisfied,
)
from palestra.serving.watchdog import Lag, LagLog, Watchdog, watchdog_threshold_s

__all__ = [
    "CHECK_PATH",
    "EMBEDDED",
    "IN_FLIGHT_PATH",
    "LOOPBACK",
    "PROCESS",
    "REMOTE",
    "REPEATABLE",
    "SESSION_ID_KEY",
    "START_TIMEOUT",
    "STUCK_AFTER_S",
    "TOKEN_FIELDS",
    "TRAINING_RUN",
    "TRAINING_TURNS",
    "WRONG_KINDS",
    "Agent",
    "AgentConfig",
    "Aside",
    "Assembly",
    "AttachedFleet",
    "BoundAgent",
    "BoundAgentConfig",
    "CapturedTurn",
    "Child",
    "Ending",
    "Endpoint",
    "EndpointFacts",
    "EndpointSaid",
    "Environment",
    "Episode",
    "FileRows",
    "Fleet",
    "ForeignFleet",
    "FunctionServer",
    "HeadAddress",
    "Hearing",
    "Judge",
    "JudgeConfig",
    "Labels",
    "Lag",
    "LagLog",
    "ModelServer",
    "ModelServerConfig",
    "NoFleet",
    "Opening",
    "Question",
    "ResourcesServer",
    "ResourcesServerConfig",
    "ReverifyMode",
    "RewardRules",
    "Ruling",
    "RunningInstance",
    "Server",
    "ServerConfig",
    "ServerReference",
    "ServerStatus",
    "Session",
    "State",
    "Step",
    "StepRequest",
    "ToolError",
    "TrainingRun",
    "TurnsServer",
    "TurnsTaken",
    "TurnsWanted",
    "Watchdog",
    "ask_endpoint",
    "assembled",
    "attach",
    "build_server",
    "cache_root",
    "check_head_port",
    "dumping_tasks",
    "environment",
    "file_rows",
    "head_server",
    "http_transport",
    "interpreter_for",
    "load_environment",
    "load_module",
    "load_server_class",
    "made_interpreter",
    "place_of",
    "probe",
    "raise_descriptor_limit",
    "rare_collections",
    "read_ended_fleet",
    "requirements_of",
    "run_dir",
    "server_class_of",
    "server_client",
    "start_timeout_of",
    "starting_within",
    "summary_line",
    "tool",
    "tool_schema",
    "unsatisfied",
    "watchdog_threshold_s",
    "without_tokens",
]
