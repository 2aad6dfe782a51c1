"""`environment_file`: the resources server of an environment written as one file."""

from functools import cached_property
from pathlib import Path

from palestra.fleet import load_environment
from palestra.server import Environment, FunctionServer, ResourcesServerConfig


class EnvironmentFileConfig(ResourcesServerConfig):
    """Settings of `environment_file`."""

    path: Path
    """The Python file that holds the `@environment` function."""


class EnvironmentFileServer(FunctionServer):
    """Verifies with the function in `path`."""

    config: EnvironmentFileConfig

    @cached_property
    def _environment(self) -> Environment:
        return load_environment(self.config.path)

    def made_environment(self) -> Environment:
        """The environment in the file."""
        return self._environment

    def environment_path(self) -> Path | None:
        """The file."""
        return self.config.path

    async def start(self) -> None:
        """Import the file now, so that what is wrong with it is said before the first rollout."""
        self.made_environment()
