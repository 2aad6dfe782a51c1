"""Settings of the commands for who writes environments."""

from typing import Annotated

from pydantic import Field

from palestra.config import Flag, flag
from palestra.settings.base import Settings


class InitArgs(Settings):
    """What `init` takes."""

    name: Annotated[str, Flag(argument=True)] = Field(
        description="Its name, or resources_servers/NAME."
    )
    config_only: bool = Field(
        default=False, description="Only configs/NAME.yaml, for a folder with app.py."
    )


class TestArgs(Settings):
    """What `test` takes. Without `names`: all of the project, else ours."""

    names: Annotated[tuple[str, ...], Flag(argument=True)] = Field(
        default=(), description="Environments' names or servers' folders; none: all of the project."
    )
    timeout_s: Annotated[float, flag("--timeout")] = Field(
        default=600.0, ge=1.0, description="Seconds that one folder's tests may take."
    )
    record: bool = Field(
        default=False, description="First record example rollouts and metrics anew."
    )
    as_json: Annotated[bool, flag("--json")] = Field(
        default=False, description="The results as JSON."
    )
    data: bool = True
    """Whether the data is looked at."""
    fresh: bool = True
    """Whether data must still fit the environment: the field's own commands only count it."""


class VerifyEnvArgs(Settings):
    """What `verify-env` takes."""

    environment: Annotated[str, Flag(argument=True)] = Field(
        description="An environment's name, its folder, a Python file, or an instance of --config."
    )
    repeats: int = Field(default=3, ge=2, description="How often an answer is verified.")
    timeout_s: Annotated[float, flag("--timeout")] = Field(
        default=60.0, ge=0.001, description="Seconds that one answer may take."
    )
    hostile_s: Annotated[float, flag("--hostile-seconds")] = Field(
        default=120.0, ge=1.0, description="Seconds for all hostile answers together."
    )
    as_json: Annotated[bool, flag("--json")] = Field(
        default=False, description="The report as JSON."
    )


class EntrypointArgs(Settings):
    """What `ng_init_resources_server` and `ng_test` take."""

    entrypoint: str
    should_validate_data: bool = False
