"""Whose code failed, when a server's own did: told by the kind of server, and by what it was asked."""

from palestra.config import ServerType
from palestra.errors import AgentError, CallError, EnvironmentFault, ModelError, VerifierError
from palestra.transport.unverified import VERIFY


def fault_of(server_type: str, path: str) -> type[CallError]:
    """The class of a failure of the code behind `path` of a server of this type."""
    if server_type == ServerType.MODEL:
        return ModelError
    if server_type == ServerType.AGENT:
        return AgentError
    return VerifierError if path.endswith(VERIFY) else EnvironmentFault
