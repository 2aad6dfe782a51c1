"""`environment_file`: the resources server of an environment written as one file."""

from functools import cached_property
from pathlib import Path

from palestra.fleet import load_environment
from palestra.server import EnvironmentConfig, EnvironmentDefinition, EnvironmentServer


class EnvironmentFileConfig(EnvironmentConfig):
    """The settings of `environment_file`."""

    path: Path
    """The Python file with the environment."""


class EnvironmentFileServer(EnvironmentServer):
    """The resources server of the environment in the file `path`."""

    config: EnvironmentFileConfig

    @cached_property
    def _definition(self) -> EnvironmentDefinition:
        config = self.config
        return load_environment(config.path, config.class_name, settings=config.settings)

    def definition(self) -> EnvironmentDefinition:
        """Return the environment that the file defines."""
        return self._definition

    def environment_path(self) -> Path | None:
        """Return the path of the file."""
        return self.config.path

    async def start(self) -> None:
        """Import the file now, so that an error in it is reported before the first rollout."""
        self.definition()
