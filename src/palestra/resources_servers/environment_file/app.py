"""`environment_file`: the resources server of an environment written as one file."""

from functools import cached_property
from pathlib import Path

from palestra.fleet import load_environment
from palestra.server import Environment, FunctionServer, ResourcesServerConfig


class EnvironmentFileConfig(ResourcesServerConfig):
    """The settings of `environment_file`."""

    path: Path
    """The Python file with the `@environment` function."""


class EnvironmentFileServer(FunctionServer):
    """A resources server that verifies with the `@environment` function of the file `path`."""

    config: EnvironmentFileConfig

    @cached_property
    def _environment(self) -> Environment:
        return load_environment(self.config.path)

    def made_environment(self) -> Environment:
        """Return the environment that the file defines."""
        return self._environment

    def environment_path(self) -> Path | None:
        """Return the path of the file."""
        return self.config.path

    async def start(self) -> None:
        """Import the file now, so that an error in it is reported before the first rollout."""
        self.made_environment()
