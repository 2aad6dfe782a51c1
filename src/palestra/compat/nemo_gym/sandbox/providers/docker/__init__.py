"""`nemo_gym.sandbox.providers.docker`: sandboxes are containers of the docker program."""

from palestra.compat.nemo_gym.sandbox.providers.docker.provider import (
    DockerCreateConfig,
    DockerExecConfig,
    DockerProvider,
)

__all__ = ["DockerCreateConfig", "DockerExecConfig", "DockerProvider"]
