"""A dataset entry in an agent's configuration: which rows, their source, and their licence.

datasets:
- name: train
  type: train
  jsonl_fpath: resources_servers/my_env/data/train.jsonl
  num_repeats: 8
  license: Apache 2.0
  huggingface_identifier: {repo_id: my_org/my_env, artifact_fpath: train.jsonl}
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from palestra.config import InstanceConfig, ServerType, did_you_mean, is_one_slip, nearest
from palestra.errors import ConfigError, Problem
from palestra.schema import JsonObject, in_short

DatasetType = Literal["train", "validation", "example", "benchmark"]
DataSource = Literal["huggingface", "gitlab"]

NEED_A_LICENSE: Final = frozenset({"train", "validation"})
LICENCES: Final = (
    "Apache 2.0",
    "MIT",
    "Creative Commons Attribution 4.0 International",
    "Creative Commons Attribution-ShareAlike 4.0 International",
    "NVIDIA Internal Use Only, Do Not Distribute",
    "TBD",
    "GNU General Public License v3.0",
    "CC BY-SA 4.0",
    "CC BY-NC 3.0",
    "NVIDIA Evaluation Dataset License Agreement",
)
"""The licences that NeMo Gym takes. Others are taken here, but not a misspelt one of these."""
_LICENCE_WORDS: Final = frozenset(
    word for text in LICENCES for word in re.findall(r"[a-z]{5,}", text.lower())
) | {"licence"}
_TRUE_WORDS: Final = frozenset({"common", "licensed", "licenced", "distributed"})
"""Words of other licences, one letter from a word of these."""
_MISSPELT_FROM: Final = 0.8
"""The minimum similarity at which an unknown key counts as a misspelt known key."""


def _has_slip(licence: str) -> bool:
    """Whether a word of `licence` is a word of a usual licence with one wrong letter."""
    known_words = _LICENCE_WORDS | _TRUE_WORDS
    # The plural of a usual word is another word: `datasets`, `licenses`.
    words = {
        word
        for word in re.findall(r"[a-z]+", licence.lower())
        if word not in known_words and word.removesuffix("s") not in known_words
    }
    return any(is_one_slip(word, usual) for word in words for usual in _LICENCE_WORDS)


class GitlabIdentifier(BaseModel):
    """The location of a dataset in GitLab's registry."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset_name: str
    """The dataset's name in the registry; case-sensitive."""
    version: str
    """The version, in the form `x.y.z`."""
    artifact_fpath: str
    """The file's name in the registry."""


class HuggingFaceIdentifier(BaseModel):
    """The location of a dataset on the Hugging Face hub."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    repo_id: str
    """The repository, in the form `organization/name`."""
    artifact_fpath: str | None = None
    """One raw file of the repository. None: the split that matches the dataset's type."""


class DatasetEntry(BaseModel):
    """One entry of an agent's `datasets`. Unknown keys are kept unchanged."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: str
    type: DatasetType
    jsonl_fpath: str
    """The path of the rows, relative to the working directory, else to the installed package."""
    num_repeats: int = Field(default=1, ge=1)
    """How many times each row is repeated, as in `aabbcc` for 2."""
    start_idx: int | None = Field(default=None, ge=0)
    """The index of the first row that is used, counted from 0."""
    end_idx: int | None = Field(default=None, ge=0)
    """The index after the last row that is used (exclusive). None: all rows up to the end."""
    gitlab_identifier: GitlabIdentifier | None = None
    huggingface_identifier: HuggingFaceIdentifier | None = None
    license: str | None = None
    prepare_script: str | None = None
    """A Python file whose `prepare()` makes the rows (type benchmark)."""
    prompt_config: str | None = None
    """The path of a prompt template, which is filled from each row when the rows are run."""

    @model_validator(mode="before")
    @classmethod
    def _licence_of_the_identifier(cls, fields: Any) -> Any:
        """Move `license` out of `huggingface_identifier`, where NeMo Gym's documentation also puts
        it.
        """
        identifier = fields.get("huggingface_identifier") if isinstance(fields, dict) else None
        if not isinstance(identifier, Mapping) or "license" not in identifier:
            return fields
        ours, theirs = fields.get("license"), identifier["license"]
        if ours is not None and ours != theirs:
            raise ValueError(
                f"license is {ours!r}, but {theirs!r} in huggingface_identifier: leave one out"
            )
        identifier = {name: value for name, value in identifier.items() if name != "license"}
        return {**fields, "huggingface_identifier": identifier, "license": theirs}

    @model_validator(mode="before")
    @classmethod
    def _has_no_slip(cls, fields: Any) -> Any:
        """Refuse a misspelt key before its absence under the right name is reported."""
        for key in fields if isinstance(fields, dict) else ():
            near = nearest(key, cls.model_fields, cutoff=_MISSPELT_FROM)
            if near is not None and near != key:
                raise ValueError(f"{key} is not a setting of a dataset; did you mean {near!r}?")
        return fields

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.type in NEED_A_LICENSE and not self.license:
            raise ValueError(f"license is required for a dataset of type {self.type}")
        if self.license is not None and _has_slip(self.license):
            raise ValueError(
                f"license {self.license!r} is misspelt{did_you_mean(self.license, LICENCES)}"
            )
        if self.end_idx is not None and self.end_idx < (self.start_idx or 0):
            raise ValueError(f"end_idx {self.end_idx} is before start_idx {self.start_idx}")
        return self

    def source(self, preferred: DataSource) -> DataSource | None:
        """Return where the dataset is downloaded from. `preferred` decides when both sources are
        configured; None when neither is.
        """
        identifiers: dict[DataSource, object] = {
            "huggingface": self.huggingface_identifier,
            "gitlab": self.gitlab_identifier,
        }
        available = [source for source, identifier in identifiers.items() if identifier is not None]
        return preferred if preferred in available else next(iter(available), None)


Download = Callable[[DatasetEntry, DataSource, Path], None]
"""Fetches an entry's rows from a source into a file. The file is written completely or not at all.
Raises PalestraError."""


@dataclass(frozen=True, slots=True)
class AgentDataset:
    """A dataset and the name of the agent instance that lists it."""

    agent: str
    entry: DatasetEntry
    locate: Callable[[Problem], Problem] = field(
        default=lambda problem: problem, compare=False, repr=False
    )
    """Gives a problem of the entry's `jsonl_fpath` the file and the line of that setting."""

    def __str__(self) -> str:
        return f"{self.entry.name} of {self.agent}"


def datasets_of_agents(instances: Iterable[InstanceConfig]) -> tuple[AgentDataset, ...]:
    """Return every dataset of every agent, in order. Raises ConfigError that lists all invalid
    entries.
    """
    agent_datasets: list[AgentDataset] = []
    problems: list[Problem] = []
    for agent in instances:
        if agent.type != ServerType.AGENT:
            continue
        for number, fields in enumerate(agent.datasets):
            try:
                entry = DatasetEntry.model_validate(dict(fields))
                locate = partial(_located, agent, number)
                agent_datasets.append(AgentDataset(agent.name, entry, locate))
            except ValidationError as error:
                problems += _problems(agent, number, fields, error)
    if problems:
        message = "\n".join(problem.message for problem in problems)
        raise ConfigError(message, problems=tuple(problems))
    return tuple(agent_datasets)


def _located(agent: InstanceConfig, number: int, problem: Problem) -> Problem:
    return agent.located(problem, "datasets", number, "jsonl_fpath")


def dataset_type_problems(instances: Iterable[InstanceConfig]) -> tuple[Problem, ...]:
    """Return the problems of datasets of agents with another type than the known ones."""
    try:
        datasets_of_agents(instances)
    except ConfigError as error:
        return tuple(problem for problem in error.problems if problem.key.endswith(".type"))
    return ()


def _problems(
    agent: InstanceConfig, number: int, fields: JsonObject, error: ValidationError
) -> Iterator[Problem]:
    where = f"{agent.name}.datasets[{number}]"
    dataset_name = f"{where} ({fields['name']})" if fields.get("name") else where
    for details in error.errors(include_url=False):
        steps = [str(step) for step in details["loc"]]
        sentence = details["msg"].removeprefix("Value error, ")
        if details["type"] == "extra_forbidden":
            sentence = f"is not a setting{did_you_mean(steps[-1], _names_in(steps[0]))}"
        elif details["type"] not in {"missing", "value_error"}:
            sentence += f", got {in_short(details['input'])}"
            if details["type"] == "literal_error" and isinstance(details["input"], str):
                sentence += did_you_mean(details["input"], get_args(DatasetType))
        field_path = ".".join(steps)
        problem = Problem(
            f"{dataset_name}: {field_path}: {sentence}"
            if field_path
            else f"{dataset_name}: {sentence}",
            key=".".join(
                [agent.name, agent.type, agent.implementation, "datasets", str(number), *steps]
            ),
        )
        yield agent.located(problem, "datasets", number, *details["loc"])


def _names_in(field: str) -> Iterable[str]:
    """Return the settings of an identifier."""
    is_of_the_hub = field == "huggingface_identifier"
    return (HuggingFaceIdentifier if is_of_the_hub else GitlabIdentifier).model_fields
