"""Settings of the commands for servers and their folders."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from palestra.config import Flag, flag
from palestra.errors import Outcome
from palestra.settings.base import JsonArgs, Settings
from palestra.settings.environments import OwnSettings, pairs


def _with_dashes(text: Any) -> Any:
    """Return `multi-turn` for `multi_turn`; other values unchanged."""
    return text.replace("_", "-") if isinstance(text, str) else text


class InitArgs(Settings):
    """The arguments of `init`."""

    name: Annotated[str, Flag(argument=True)] = Field(
        default="", description="Its name, or resources_servers/NAME; default that of --from."
    )
    source: Annotated[str | None, flag("--from", metavar="FILE.py")] = Field(
        default=None, description="Make the folder of this environment in one file."
    )
    template: Annotated[
        Literal["single", "tools", "multi-turn", "judge", "sandbox", "file"],
        BeforeValidator(_with_dashes),
        flag("--template", metavar="TEMPLATE"),
    ] = Field(
        default="single",
        description="single, tools, multi-turn, judge, sandbox, or file for one Python file.",
    )
    shadow: bool = Field(
        default=False, description="Also with the name of a built-in environment, which it hides."
    )
    config_only: bool = Field(
        default=False, description="Only configs/NAME.yaml, for a folder with app.py."
    )


class TestArgs(JsonArgs):
    """The arguments of `test`. Without `names`, all environments of the project are tested; without
    a project, those of Palestra.
    """

    names: Annotated[tuple[str, ...], Flag(argument=True)] = Field(
        default=(),
        description="Environments' names or Python files, or servers' folders; none: all of the "
        "project.",
    )
    timeout_s: Annotated[float, flag("--timeout")] = Field(
        default=600.0, ge=1.0, description="Seconds that one folder's tests may take."
    )
    record: bool = Field(
        default=False, description="First record example rollouts and metrics anew."
    )
    data: bool = True
    """Whether to check the data of the environment."""
    fresh: bool = True
    """Whether to check that the data still fits the environment. NeMo Gym's commands only count it.
    """


class VerifyEnvArgs(OwnSettings, JsonArgs):
    """The arguments of `verify-env`."""

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


class EntrypointArgs(Settings):
    """The arguments of `ng_init_resources_server` and `ng_test`."""

    entrypoint: str
    should_validate_data: bool = False
    """Of `ng_test`."""
    shadow: bool = False
    """Of `ng_init_resources_server`: see `InitArgs.shadow`."""


class VLLMServer(Settings):
    """The settings of a vLLM server: the model, the address and how to serve."""

    model: Annotated[str, Flag(argument=True)] = Field(
        description="A Hugging Face folder, or a name vLLM can fetch."
    )
    name: str = Field(default="", description="What requests call it; default its last part.")
    host: str = Field(default="127.0.0.1", description="Where to listen.")
    port: int = Field(default=0, ge=0, le=65535, description="0 takes a free one.")
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
        default=None, ge=1, description="Tokens of prompt and answer; default the model's limit."
    )
    api_key: str = Field(default="", repr=False)
    """The API key that callers must send; empty: no key is required."""
    api_key_env: str = Field(
        default="", description="Environment variable with the key to ask of callers."
    )
    threads: int = Field(default=1, ge=1, description="On a CPU: threads that compute.")
    kv_cache_gib: Annotated[int, flag("--kv-cache")] = Field(
        default=1, ge=1, description="On a CPU: GiB for what was read."
    )
    python: str | None = Field(default=None, description="A Python that has vLLM.")
    ready_timeout_s: Annotated[float, flag("--ready-timeout")] = Field(
        default=1800.0, gt=0, description="Seconds it may take."
    )
    log_path: Annotated[Path | None, flag("--log")] = Field(
        default=None, description="A file for all that vLLM prints."
    )
    arguments: Annotated[tuple[str, ...], Flag(argument=True)] = Field(
        default=(), description="More of vLLM's own, after --."
    )

    @property
    def served_name(self) -> str:
        """The model's name in requests."""
        return self.name or Path(self.model).name


class LlamaCppServer(Settings):
    """The settings of a llama.cpp server: the model, the address and how to serve."""

    model: Annotated[str | None, Flag(argument=True)] = Field(
        default=None, description="A GGUF file; default the embedded model's."
    )
    name: str = Field(default="", description="What requests call it; default the file's.")
    host: str = Field(default="127.0.0.1", description="Where to listen.")
    port: int = Field(default=0, ge=0, le=65535, description="0 takes a free one.")
    chat_template: str = Field(
        default="",
        description="A file; default the model's own, for the embedded one one that knows tools.",
    )
    context_tokens: Annotated[int, flag("--context")] = Field(
        default=2048, ge=1, description="Tokens of prompt and answer, a slot."
    )
    slots: int = Field(default=8, ge=1, description="Requests generated at once.")
    threads: int | None = Field(
        default=None, ge=1, description="Threads that compute; default by the processors."
    )
    api_key: str = Field(default="", repr=False)
    """The API key that callers must send; empty: no key is required."""
    api_key_env: str = Field(
        default="", description="Environment variable with the key to ask of callers."
    )
    ready_timeout_s: Annotated[float, flag("--ready-timeout")] = Field(
        default=120.0, gt=0, description="Seconds it may take."
    )


class PipListArgs(JsonArgs):
    """The arguments of `pip-list`."""

    entrypoint: Annotated[str, Flag(metavar="SERVER", argument=True)] = Field(
        description="Its folder: resources_servers/NAME."
    )
    format: Annotated[Literal["columns", "freeze", "json"], flag(metavar="FORMAT")] = Field(
        default="columns", description="columns, freeze or json."
    )
    outdated: bool = Field(default=False, description="Only those with newer versions.")


class StatusArgs(JsonArgs):
    """The arguments of `status`."""

    wait: float | None = Field(
        default=None, ge=0, description="Seconds to wait until every server is ready."
    )
    rollouts: bool = Field(
        default=False,
        description="What each rollout in flight waits for, and for how long, instead.",
    )


class SandboxArgs(Settings):
    """The arguments of `sandbox serve`."""

    host: str = Field(default="127.0.0.1", description="Where to listen.")
    port: int = Field(default=6000, ge=0, le=65535, description="0 takes a free one.")
    token: str = Field(
        default="", repr=False, description="Asked of callers; default $PALESTRA_SANDBOX_TOKEN."
    )
    at_once: int = Field(default=0, ge=0, description="Programs at a time; 0 is one per core.")
    backend: str = Field(default="bubblewrap", description="bubblewrap or process.")


class ServeRolloutsArgs(Settings):
    """The arguments of `serve-rollouts`."""

    host: str = Field(default="127.0.0.1", description="Where to listen.")
    port: int = Field(default=11500, ge=0, le=65535, description="0 takes a free one.")
    attached: bool = Field(
        default=False, description="Use the fleet of `palestra run` instead of one of its own."
    )
    agent: str = Field(default="", description="The agent of rows that name none.")
    in_flight: int = Field(default=256, ge=1, description="Rollouts at a time.")
    token_ids: Annotated[bool, flag("--token-ids/--no-token-ids")] = Field(
        default=True, description="Whether outcomes have the ids of every token."
    )
    max_staleness: int | None = Field(
        default=None, ge=0, description="Weight versions that a rollout may be old."
    )
    on_stale: Literal["keep", "drop", "abort", "continue"] = Field(
        default="drop",
        description="What happens to a rollout that is older: keep, drop, abort or continue.",
    )
    on_invalid_logprobs: Literal["raise", "mask", "split"] = Field(
        default="raise",
        description="What happens to a rollout with invalid log probs: raise (its batch ends), mask "
        "(no token of it is trained on) or split (no token of that turn).",
    )
    on_discontinuity: Literal["raise", "mask", "split"] = Field(
        default="raise",
        description="What happens to a rollout whose history was rewritten: raise, mask, or split "
        "(into several sequences).",
    )
    attempts: Annotated[
        Mapping[Outcome, Annotated[int, Field(ge=1)]],
        BeforeValidator(partial(pairs, "--attempts")),
        flag("--attempts", metavar="CLASS=N"),
    ] = Field(
        default_factory=dict,
        description="Attempts of a rollout that fails with this class, such as infra_error=5; may be "
        "repeated. Other classes keep their default.",
    )
    nan_retries: int = Field(
        default=0, ge=0, description="Further attempts of a rollout with invalid log probs."
    )
    rollout_timeout_s: Annotated[float, flag("--rollout-timeout")] = Field(
        default=1800.0, gt=0, description="Seconds that an attempt may take."
    )
    lease_s: Annotated[float, flag("--lease")] = Field(
        default=300.0, gt=0, description="Cancel a batch whose client is silent for so long."
    )


class FetchArgs(Settings):
    """The arguments of `models fetch`."""

    name: Annotated[str, Flag(argument=True)] = Field(
        description="Which model; `local` is the one."
    )
