"""The settings that a user gives for a collection, under the names of NeMo Gym's commands, with
validation.
"""

import math
from collections.abc import Iterator, Mapping
from glob import has_magic
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from palestra.config import ResolvedConfig, file_server_settings, flag, parse_overrides
from palestra.errors import ConfigError, KnownCause
from palestra.settings.base import (
    Settings,
    existing_path,
    existing_paths,
    named_as_rows,
    of_key,
    sentence_of,
)
from palestra.settings.collection import (
    AUTO,
    OTHER_AGENTS,
    PATIENCE_S,
    CollectSettings,
    InputFile,
    Share,
)
from palestra.settings.parameters import CHAT_NAMES, misspelt_parameters, no_text_in

NO_END: Final = frozenset({"none", "null", "never", "inf"})
"""Texts that turn a limit off, like 0."""


def concurrency(value: Any) -> int | Literal["auto"] | None:
    """Return a number of rollouts (at least 1), `auto`, or None. Raises ValueError: any other
    value.
    """
    if value is None:
        return None
    if value == AUTO:
        return AUTO
    try:
        number = int(str(value))
    except ValueError:
        number = 0
    if number < 1:
        raise ValueError("should be a whole number from 1 on, or auto")
    return number


def repeats(value: Any) -> int | dict[str, int]:
    """Return a number of rollouts per task (at least 1), or the mapping of such numbers by agent.

    A mapping may be text, as in `{my_agent: 4, _default: 1}`. Raises ValueError: any other value.
    """
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = parse_overrides([f"+num_repeats={value}"])[0].value
    if not isinstance(value, Mapping):
        return _whole_number(value)
    if not value:
        raise ValueError(f"should name agents, or {OTHER_AGENTS}, with a number each")
    return {str(agent): _whole_number(number, f"of {agent} ") for agent, number in value.items()}


def _whole_number(value: Any, which: str = "") -> int:
    try:
        number = 0 if isinstance(value, bool | float) else int(str(value))
    except ValueError:
        number = 0
    if number < 1:
        raise ValueError(
            f"{which}should be a whole number from 1 on, or a mapping of such numbers by agent, as in "
            f"{{my_agent: 4, {OTHER_AGENTS}: 1}}"
        )
    return number


_PARAMETER_RANGES: Final[Mapping[str, tuple[int, float]]] = {
    "max_output_tokens": (1, math.inf),
    "temperature": (0, math.inf),
    "top_p": (0, 1),
}
"""The ranges of a request's parameters that every endpoint has."""


def _not_finite(value: Any, key: str = "") -> Iterator[tuple[str, float]]:
    """Yield the dotted key and the value of each number that JSON lacks: nan and the infinities."""
    if isinstance(value, float) and not math.isfinite(value):
        yield key, value
    items = (
        value.items()
        if isinstance(value, Mapping)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for step, item in items:
        yield from _not_finite(item, f"{key}.{step}" if key else str(step))


class SkillsArgs(Settings):
    """The setting `skills`. `path`: the folder of the agents' skills."""

    path: str


class PatienceArgs(Settings):
    """How long a run waits for endpoints that do not answer. None: without limit."""

    patience: Annotated[float | None, flag(metavar="SECONDS")] = Field(
        default=PATIENCE_S,
        ge=0,
        description="Stop when the endpoint refuses all for so long, 0 or none: never.",
    )

    @field_validator("patience", mode="before")
    @classmethod
    def _is_a_patience(cls, value: Any) -> Any:
        """Return None (no limit) for the texts in `NO_END`, other values unchanged."""
        return None if str(value).lower() in NO_END else value

    @field_validator("patience")
    @classmethod
    def _ends(cls, value: float | None) -> float | None:
        return value or None


class RunArgs(PatienceArgs):
    """The settings common to `collect` and `eval`."""

    num_repeats: Annotated[
        int | dict[str, int], BeforeValidator(repeats), flag("--num-repeats", "--repeats")
    ] = Field(default=1, description="Rollouts per task, or {agent: n, _default: n}.")
    num_samples_in_parallel: Annotated[
        int | Literal["auto"] | None, BeforeValidator(concurrency), flag("--concurrency")
    ] = Field(default=None, description="Rollouts in flight, or auto; default no bound.")
    resume_from_cache: Annotated[bool, flag("--resume")] = Field(
        default=False, description="Continue an earlier run that is not complete."
    )
    overwrite: bool = Field(default=False, description="Move an earlier run's files to .bak.")
    min_coverage: float = Field(
        default=1.0, ge=0, le=1, description="Share that must be scored for exit code 0."
    )
    rollout_timeout: float = Field(
        default=3600.0,
        gt=0,
        description="Seconds that one attempt may take.",
    )
    max_attempts: int = Field(default=3, ge=1, description="Attempts per rollout.")
    on_stale: Literal["error", "restart"] = Field(
        default="error",
        description="What to do when the run to --resume was made otherwise.",
    )
    progress: Annotated[
        Literal["rich", "plain", "none"] | None, flag(metavar="rich|plain|none")
    ] = Field(default=None, description="How progress is shown; default by the terminal.")
    json_events: str | None = Field(
        default=None, description="File for one JSON object per event; - for stdout."
    )


class CollectArgs(RunArgs):
    """The settings of `collect` and `ng_collect_rollouts`. A field without a description is not a
    flag.
    """

    split: Literal["train", "validation", "benchmark", "example"] | None = Field(
        default=None, description="Without --input: the configs' datasets of this type."
    )
    input_jsonl_fpath: Annotated[str | None, flag("--input", "-i")] = Field(
        default=None,
        validate_default=True,
        description="Tasks, one JSON row a line: a file or a quoted glob.",
    )
    output_jsonl_fpath: Annotated[str, flag("--output", "-o")] = Field(
        description="Where scored rows go (.jsonl)."
    )
    agent_name: Annotated[str | None, flag("--agent")] = Field(
        default=None, description="Agent for rows without agent_ref."
    )
    limit: int | None = Field(default=None, ge=0, description="First n rows; 0 runs none.")
    num_repeats_add_seed: Annotated[
        bool, flag("--num-repeats-add-seed/--no-num-repeats-add-seed")
    ] = Field(default=False, description="Seed each rollout with its index.")
    prompt_config: str | None = Field(
        default=None, description="YAML template that makes the input from row fields."
    )
    shard: str | None = Field(
        default=None, description="I/N: this job's share of the tasks, from 0/N on."
    )
    responses_create_params: dict[str, Any] = Field(default_factory=dict)
    skills: SkillsArgs | None = None
    disable_aggregation: bool = False
    watchdog: float = Field(default=0.5, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _takes_own_rows(cls, values: Any) -> Any:
        """Use the rows of environments in one file, when no other rows are asked for."""
        has_no_input = isinstance(values, Mapping) and not (
            values.get("input_jsonl_fpath") or values.get("split")
        )
        if has_no_input and any(
            file_server_settings(block) is not None for block in values.values()
        ):
            return {**values, "split": "example"}
        return values

    @field_validator("input_jsonl_fpath")
    @classmethod
    def _is_given(cls, value: str | None, info: ValidationInfo) -> str | None:
        # A split that is not valid is absent here, and reported by itself.
        if value is None and "split" in info.data and info.data["split"] is None:
            raise PydanticCustomError("missing", "Field required")
        return value

    @field_validator("output_jsonl_fpath")
    @classmethod
    def _is_of_rows(cls, value: str) -> str:
        named_as_rows(value)
        return value

    @field_validator("responses_create_params")
    @classmethod
    def _can_be_asked(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Refuse a request's parameters that no model accepts, before they reach the rows."""
        from palestra.schema import ResponseCreateParams

        try:
            ResponseCreateParams.model_validate({"input": "", **value})
        except ValidationError as error:
            details = error.errors(include_url=False)[0]
            key = ".".join(str(step) for step in details["loc"])
            raise of_key(key, sentence_of(details), details["input"]) from None
        chat_names = {name: CHAT_NAMES[name] for name in value if name in CHAT_NAMES}
        for name, near in (chat_names | misspelt_parameters(value.keys())).items():
            raise of_key(
                name, f"is no parameter of a request (did you mean {near!r}?)", value[name]
            )
        for name in no_text_in(value.get("metadata")):
            raise of_key(f"metadata.{name}", "should be a text", value["metadata"][name])
        for key, infinite in _not_finite(value):
            raise of_key(key, "should be a finite number", infinite)
        for name, (lowest, highest) in _PARAMETER_RANGES.items():
            number = value.get(name)
            if number is not None and not lowest <= float(number) <= highest:
                bounds = (
                    f"at least {lowest}" if highest == math.inf else f"from {lowest} to {highest}"
                )
                raise of_key(name, f"should be {bounds}", number)
        return value

    @field_validator("shard")
    @classmethod
    def _is_a_shard(cls, value: str | None) -> str | None:
        if value is not None:
            Share.parse(value)
        return value

    @model_validator(mode="after")
    def _says_one_thing_about_an_earlier_run(self) -> Self:
        if self.resume_from_cache and self.overwrite:
            raise ValueError(
                "resume_from_cache (--resume) continues an earlier run, and overwrite (--overwrite) "
                "moves it aside: use one of them"
            )
        if self.on_stale == "restart" and not self.resume_from_cache:
            raise ValueError(
                "on_stale (--on-stale) restart is for a run that is to be continued: add "
                "resume_from_cache (--resume), or use overwrite (--overwrite) alone"
            )
        return self

    def settings(self, config: ResolvedConfig, *, overwrite: bool | None = None) -> CollectSettings:
        """Return the settings in the form that the `rollouts` package uses, with resolved paths.

        Raises ConfigError: there is no input file and no dataset of type `split`.
        """
        values = self.model_dump(
            exclude={"progress", "json_events", "watchdog", "input_jsonl_fpath", "split"}
        )
        values["inputs"] = self._inputs(config)
        values["shard"] = Share.parse(self.shard) if self.shard else None
        values["output_jsonl_fpath"] = Path(self.output_jsonl_fpath).absolute()
        values["prompt_config"] = existing_path(self.prompt_config) if self.prompt_config else None
        values["skills"] = self.skills.path if self.skills else None
        if overwrite is not None:
            values["overwrite"] = overwrite
        return CollectSettings(**values)

    def _inputs(self, config: ResolvedConfig) -> tuple[InputFile, ...]:
        from palestra.schema import RunPaths

        if self.input_jsonl_fpath:
            files = existing_paths(self.input_jsonl_fpath)
            if has_magic(self.input_jsonl_fpath):
                run = RunPaths(Path(self.output_jsonl_fpath).absolute())
                files = tuple(file for file in files if not run.owns(file))
            if not files:
                raise ConfigError(
                    f"{self.input_jsonl_fpath} matches only files of the run that it would write",
                    hint="write the output into another folder, or name the tasks more exactly",
                )
            return tuple(map(InputFile, files))
        dataset_files = datasets_of(config, self.split or "")
        if not dataset_files:
            refuse_no_config(config, f"of type {self.split}")
            raise ConfigError(
                f"no agent of the configuration has a dataset of type {self.split}",
                hint="list datasets under an agent: {name, type, jsonl_fpath}; or pass a file "
                "with --input",
                cause=KnownCause.NO_DATASET,
            )
        return dataset_files


def refuse_no_config(config: ResolvedConfig, datasets: str) -> None:
    """Raise ConfigError when `config` has no server, because the command names no config file.

    `datasets`: which datasets the command needs, for the message.
    """
    if config.instances:
        return
    raise ConfigError(
        f"there are no datasets {datasets}: no config file is given, and datasets are listed there",
        hint="name the config files, those of a running fleet too: --config FILE",
        cause=KnownCause.NO_DATASET,
    )


def datasets_of(config: ResolvedConfig, split: str) -> tuple[InputFile, ...]:
    """Return the datasets of type `split`, in config order, each with the agent that declares it."""
    return tuple(
        InputFile(
            existing_path(str(dataset["jsonl_fpath"])),
            agent=instance.name,
            repeats=int(dataset.get("num_repeats") or 1),
            start=int(dataset.get("start_idx") or 0),
            end=dataset.get("end_idx"),
            prompt_config=existing_path(str(prompt))
            if (prompt := dataset.get("prompt_config"))
            else None,
        )
        for instance in config.instances.values()
        for dataset in instance.datasets
        if dataset.get("type") == split
    )
