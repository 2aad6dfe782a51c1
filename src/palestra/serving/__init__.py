"""Servers and fleets: base classes to write one, placements to run many.

A server is an object with typed async methods and an ASGI app over them; where it lives
(embedded in this process, in a process of its own, or remote) is decided by the fleet.
"""

from palestra.serving.agent import Agent, AgentConfig, ServerReference
from palestra.serving.authoring import Environment, environment
from palestra.serving.loading import load_environment, load_module, load_server_class
from palestra.serving.model_server import ModelServer, ModelServerConfig
from palestra.serving.resources_server import ResourcesServer, ResourcesServerConfig
from palestra.serving.server import Server, ServerConfig
from palestra.serving.sessions import SESSION_ID_KEY, Session
from palestra.serving.tools import tool, tool_schema

__all__ = [
    "SESSION_ID_KEY",
    "Agent",
    "AgentConfig",
    "Environment",
    "ModelServer",
    "ModelServerConfig",
    "ResourcesServer",
    "ResourcesServerConfig",
    "Server",
    "ServerConfig",
    "ServerReference",
    "Session",
    "environment",
    "load_environment",
    "load_module",
    "load_server_class",
    "tool",
    "tool_schema",
]
