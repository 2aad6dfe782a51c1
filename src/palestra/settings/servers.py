"""Settings of the commands about servers and their folders."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from palestra.config import Flag, flag
from palestra.settings.base import JsonArgs, Settings


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


class VLLMServer(Settings):
    """What to serve, and how."""

    model: Annotated[str, Flag(argument=True)] = Field(
        description="A Hugging Face folder, or a name vLLM can fetch."
    )
    name: str = Field(default="", description="What requests call it; default its last part.")
    host: str = Field(default="127.0.0.1", description="Where to listen.")
    port: int = Field(default=0, description="0 takes a free one.")
    tool_parser: str = Field(
        default="auto",
        description="auto (by the chat template), none, or vLLM's name of one.",
    )
    reasoning_parser: str = Field(
        default="",
        description="vLLM's name of one; default none, so that reasoning stays in the text.",
    )
    chat_template: str = Field(default="", description="A file; default the model's own.")
    max_model_len: int | None = Field(
        default=None, description="Tokens of prompt and answer; default the model's limit."
    )
    api_key: str = Field(default="", repr=False)
    """Asked of callers; empty asks for none."""
    api_key_env: str = Field(
        default="", description="Environment variable with the key to ask of callers."
    )
    threads: int = Field(default=1, description="On a CPU: threads that compute.")
    kv_cache_gib: Annotated[int, flag("--kv-cache")] = Field(
        default=1, description="On a CPU: GiB for what was read."
    )
    python: str | None = Field(default=None, description="A Python that has vLLM.")
    ready_timeout_s: Annotated[float, flag("--ready-timeout")] = Field(
        default=1800.0, description="Seconds it may take."
    )
    log_path: Annotated[Path | None, flag("--log")] = Field(
        default=None, description="A file for all that vLLM prints."
    )
    arguments: Annotated[tuple[str, ...], Flag(argument=True)] = Field(
        default=(), description="More of vLLM's own, after --."
    )

    @property
    def served_name(self) -> str:
        """The name in requests."""
        return self.name or Path(self.model).name


class LlamaCppServer(Settings):
    """What to serve, and how."""

    model: Annotated[str | None, Flag(argument=True)] = Field(
        default=None, description="A GGUF file; default the embedded model's."
    )
    name: str = Field(default="", description="What requests call it; default the file's.")
    host: str = Field(default="127.0.0.1", description="Where to listen.")
    port: int = Field(default=0, description="0 takes a free one.")
    chat_template: str = Field(
        default="",
        description="A file; default the model's own, for the embedded one one that knows tools.",
    )
    context_tokens: Annotated[int, flag("--context")] = Field(
        default=2048, description="Tokens of prompt and answer, a slot."
    )
    slots: int = Field(default=8, description="Requests generated at once.")
    threads: int | None = Field(
        default=None, description="Threads that compute; default by the processors."
    )
    api_key: str = Field(default="", repr=False)
    """Asked of callers; empty asks for none."""
    api_key_env: str = Field(
        default="", description="Environment variable with the key to ask of callers."
    )
    ready_timeout_s: Annotated[float, flag("--ready-timeout")] = Field(
        default=120.0, description="Seconds it may take."
    )


class PipListArgs(Settings):
    """What `pip-list` takes."""

    entrypoint: Annotated[str, Flag(metavar="SERVER", argument=True)] = Field(
        description="Its folder: resources_servers/NAME."
    )
    format: Annotated[Literal["columns", "freeze", "json"], flag(metavar="FORMAT")] = Field(
        default="columns", description="columns, freeze or json."
    )
    outdated: bool = Field(default=False, description="Only those with newer versions.")


class StatusArgs(JsonArgs):
    """What `status` takes."""

    wait: float | None = Field(
        default=None, description="Seconds to wait until every server is ready."
    )
    rollouts: bool = Field(
        default=False,
        description="What each rollout in flight waits for, and for how long, instead.",
    )


class SandboxArgs(Settings):
    """What `sandbox serve` takes."""

    host: str = Field(default="127.0.0.1", description="Where to listen.")
    port: int = Field(default=6000, description="0 takes a free one.")
    token: str = Field(
        default="", repr=False, description="Asked of callers; default $PALESTRA_SANDBOX_TOKEN."
    )
    at_once: int = Field(default=0, description="Programs at a time; 0 is one per core.")
    backend: str = Field(default="bubblewrap", description="bubblewrap or process.")


class FetchArgs(Settings):
    """What `models fetch` takes."""

    name: Annotated[str, Flag(argument=True)] = Field(
        description="Which model; `local` is the one."
    )
