"""What a user asks for: the options of `palestra cluster rollouts`, checked against each other.

The names are the flags', with underscores; from Python they are keyword arguments. An option is
used or refused, never ignored.
"""

import shlex
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from palestra.cluster.configs import Line
from palestra.cluster.job_options import JobOptions, Texts, name_problems
from palestra.cluster.secrets import (
    PLACEHOLDERS,
    address_problem,
    argument_problems,
    override_problems,
    variable_problem,
)
from palestra.cluster.seeds import chunks_of, seeds_of
from palestra.config import did_you_mean, flag, raise_problems
from palestra.errors import ConfigError
from palestra.rollouts.arguments import args_from


def config_list(value: Any) -> Any:
    """Config files, as a list or as one text with commas, as in the field."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.strip("[]").split(",") if part.strip())
    return value


def _text(value: Any) -> Any:
    """A key of digits alone is a text, too: a message about its type would show it."""
    return value if value is None else str(value)


Key = Annotated[str | None, BeforeValidator(_text)]
Numbers = str | int | tuple[int, ...] | None


class RolloutOptions(JobOptions):
    """The options, which are the flags of the command; docs/cluster.md explains them."""

    config_paths: Annotated[
        tuple[str, ...], BeforeValidator(config_list), flag("--config-paths", "-c")
    ] = Field(min_length=1, description="Config files, with commas or repeated.")
    input_file: Line = Field(description="One task a line, JSON.")
    output_dir: Line = Field(description="A folder for all files of the run.")
    agent_name: str | None = Field(default=None, description="For rows without agent_ref.")
    num_random_seeds: int | None = Field(default=None, description="So many seeds.")
    starting_seed: int | None = Field(default=None, description="The first of them; default 0.")
    random_seeds: Numbers = Field(default=None, description="Or a list 0,2,5, or a range 3..9.")
    num_repeats: int = Field(default=1, ge=1, description="Rollouts of a task, for each seed.")
    limit: int | None = Field(
        default=None, ge=1, description="The first so many tasks of each job."
    )
    num_samples_in_parallel: int | None = Field(
        default=None, ge=1, description="Rollouts in flight, in each job."
    )
    num_chunks: int | None = Field(
        default=None, description="Parts of the tasks: a job for each, and each seed."
    )
    chunk_ids: Numbers = Field(default=None, description="Only these, from 0: 0,2 or 3..9.")
    model: str | None = Field(default=None, description="A path inside a mount, or a hub's name.")
    policy_model_name: str | None = Field(
        default=None, description="Its name in requests; default --model."
    )
    server_type: str | None = Field(
        default=None, description="Start one per job: vllm, sglang, llama_cpp or generic."
    )
    server_gpus: int = Field(default=0, ge=0, description="GPUs of each of its nodes.")
    server_cpu: bool = Field(default=False, description="It needs no GPU.")
    server_nodes: int = Field(default=1, ge=1, description="Nodes that it spans.")
    server_args: str = Field(default="", description="More of its own arguments, quoted.")
    server_entrypoint: str | None = Field(
        default=None, description="Its command, instead of the type's; may say {host} and {port}."
    )
    server_container: Line | None = Field(
        default=None, description="Its image, instead of the type's."
    )
    server_address: str | None = Field(
        default=None, description="A server that runs already: http://host:port/v1."
    )
    policy_api_key_env: str | None = Field(
        default=None, description="The environment variable that holds its key."
    )
    policy_api_key: Key = Field(
        default=None,
        repr=False,
        description="A placeholder such as dummy; a real key only by its variable.",
    )
    gym_path: str | None = Field(
        default=None,
        description="Install this checkout, once per node. In containers, paths that are not here are looked for below it.",
    )
    gym_container: Line | None = Field(default=None, description="Palestra's image.")
    with_sandbox: bool = Field(
        default=False, description="A sandbox in each job, for model-written code."
    )
    keep_mounts_for_sandbox: bool = Field(
        default=False, description="It sees the mounts; default none."
    )
    ray_nodes: int = Field(
        default=0, ge=0, description="Nodes of a Ray cluster in each job, for heavy verifiers."
    )
    dependent_jobs: int = Field(
        default=0, ge=0, description="So many more jobs after each, to go on past a time limit."
    )
    array_cap: int | None = Field(default=None, ge=1, description="Jobs at once, at most.")
    rerun_done: bool = Field(default=False, description="Collect again what is done.")
    serve_override: Texts = Field(
        default=(), description="A Hydra override of the servers; repeatable."
    )
    collect_override: Texts = Field(
        default=(), description="A Hydra override of the collection; repeatable."
    )
    trust_remote_code: bool = Field(
        default=False, description="Let it run code that comes with the model."
    )

    @property
    def self_hosted(self) -> bool:
        """Whether each job starts a model server of its own."""
        return self.server_gpus > 0 or self.server_cpu

    @property
    def seeds(self) -> tuple[int, ...] | None:
        """The seeds asked for; None when none were."""
        return seeds_of(self.num_random_seeds, self.starting_seed, _numbers(self.random_seeds))

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """The chunks to run; None when the tasks are not cut."""
        return chunks_of(self.num_chunks, _numbers(self.chunk_ids))

    @property
    def policy_name(self) -> str:
        """The model's name in requests."""
        return self.policy_model_name or self.model or ""

    @property
    def key_variable(self) -> str | None:
        """The variable of a key that `--policy-api-key-env` names."""
        return self.policy_api_key_env


def _numbers(given: Numbers) -> str | tuple[int, ...] | None:
    return str(given) if isinstance(given, int) else given


def checked_options(**given: Any) -> RolloutOptions:
    """The options, each right in itself and all of them together. Raises ConfigError."""
    unknown = [name for name in given if name not in RolloutOptions.model_fields]
    if unknown:
        near = did_you_mean(unknown[0], RolloutOptions.model_fields)
        raise ConfigError(f"{', '.join(unknown)}: no such option{near}")
    options = args_from(RolloutOptions, given, hint="`palestra cluster rollouts --help` lists all")
    raise_problems(
        [
            *_server_problems(options),
            *_key_value_problems(options),
            *_name_problems(options),
            *override_problems(options.serve_override, "--serve-override"),
            *override_problems(options.collect_override, "--collect-override"),
            *argument_problems(_words(options.server_args, "--server-args"), "--server-args"),
            *argument_problems(
                _words(options.server_entrypoint or "", "--server-entrypoint"),
                "--server-entrypoint",
            ),
        ]
    )
    _ = options.seeds, options.chunks
    return options


def _words(text: str, option: str) -> Sequence[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from None


def _server_problems(options: RolloutOptions) -> list[str]:
    """Self-hosted or pre-hosted: the options of one never stand beside those of the other."""
    given = {
        "--server-type": options.server_type is not None,
        "--server-gpus": options.server_gpus > 0,
        "--server-cpu": options.server_cpu,
        "--server-nodes": options.server_nodes != 1,
        "--server-args": bool(options.server_args),
        "--server-entrypoint": options.server_entrypoint is not None,
        "--server-container": options.server_container is not None,
        "--trust-remote-code": options.trust_remote_code,
    }
    own = [name for name, there in given.items() if there]
    if options.server_address is not None:
        return _address_problems(options, options.server_address, own)
    if not options.self_hosted:
        if own:
            return [f"{', '.join(own)} without --server-gpus N (or --server-cpu): nothing starts"]
        return _key_problems(options)
    problems = []
    if options.server_gpus and options.server_cpu:
        problems.append("--server-gpus and --server-cpu: give one of them")
    if not options.model:
        problems.append("a self-hosted server needs --model")
    if not options.server_type:
        problems.append("a self-hosted server needs --server-type")
    if options.policy_api_key_env:
        problems.append("--policy-api-key-env: a self-hosted server's key is made for each job")
    return problems


def _address_problems(options: RolloutOptions, address: str, own: Sequence[str]) -> list[str]:
    """What is wrong with a server that runs already. `own`: options of one that does not."""
    problems = []
    if own:
        problems.append(
            f"{', '.join(own)} beside --server-address: a server that runs already is not started"
        )
    if not address.startswith(("http://", "https://")):
        problems.append("--server-address is a URL such as http://host:8000/v1")
    elif problem := address_problem(address, "--server-address"):
        problems.append(problem)
    if not options.policy_name:
        problems.append("--server-address needs --model (or --policy-model-name) to ask for")
    return problems + _key_problems(options)


def _key_problems(options: RolloutOptions) -> list[str]:
    if options.policy_api_key_env is None:
        return []
    problem = variable_problem(options.policy_api_key_env, "--policy-api-key-env")
    return [problem] if problem else []


def _key_value_problems(options: RolloutOptions) -> list[str]:
    """A key by value: only what is no key may be written down. Never shows it."""
    key = options.policy_api_key
    if key is None or key.lower() in PLACEHOLDERS:
        both = bool(key) and options.policy_api_key_env is not None
        return ["--policy-api-key and --policy-api-key-env: give one of them"] if both else []
    problem = (
        "--policy-api-key would stand in the plan: export the key, and give the name of its "
        "variable, --policy-api-key-env"
    )
    if options.self_hosted:
        problem = (
            "--policy-api-key: a server that a job starts gets a key made for that job, so leave "
            "it out (--policy-api-key-env names the variable of a key for --server-address)"
        )
    return [problem]


def _name_problems(options: RolloutOptions) -> list[str]:
    problems = name_problems(options)
    if options.keep_mounts_for_sandbox and not options.with_sandbox:
        problems.append("--keep-mounts-for-sandbox without --with-sandbox")
    if options.gym_path and options.package in {"git", "dir"}:
        problems.append(f"--gym-path and --package {options.package}: give one of them")
    return problems
