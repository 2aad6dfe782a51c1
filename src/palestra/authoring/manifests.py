"""Manifests: the `manifest.yaml` of an environment or a benchmark, which declares what it is."""

import math
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
)
from pydantic_core import ErrorDetails

from palestra.authoring.yaml_lines import YamlDocument
from palestra.config import did_you_mean, raise_problems
from palestra.errors import Problem
from palestra.schema import JsonDict

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Version = Annotated[
    Text,
    BeforeValidator(
        lambda value: (
            str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
        )
    ),
]
"""A version. YAML reads 1.0 without quotes as a number, and it is a text nevertheless."""
Texts = Text | Annotated[list[Text], Field(min_length=1)]
Detail = bool | Text | JsonDict | list[Any]
"""A text, or the author's own structure."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RewardDeclaration(_Strict):
    """The rewards that the verifier may give."""

    range: tuple[float, float]
    """The lowest and the highest reward; `-.inf` and `.inf` for no limit."""
    higher_is_better: bool = True

    @field_validator("range")
    @classmethod
    def _is_ascending(cls, value: tuple[float, float]) -> tuple[float, float]:
        low, high = value
        if math.isnan(low) or math.isnan(high) or low >= high:
            raise ValueError("must be the lowest and then the highest reward, such as [0, 1]")
        return value

    @property
    def best(self) -> float:
        """The reward of a perfect answer."""
        return self.range[1] if self.higher_is_better else self.range[0]


class ManifestDataset(_Strict):
    """A dataset of the agent, as the config declares it."""

    model_config = ConfigDict(extra="allow")

    name: Text
    type: Text | None = None
    jsonl_fpath: Text | None = None


class Manifest(_Strict):
    """All keys of a manifest. Any other key is an error."""

    name: Text
    version: Version
    kind: Literal["environment", "benchmark"]
    integration_profile: Text
    """How the environment is connected: by a resources server, by an agent's harness, …"""
    domain: Text
    description: Text
    modality: Texts
    licensing: Detail
    authors: Text | Annotated[list[Text | JsonDict], Field(min_length=1)]
    reward: RewardDeclaration
    determinism: bool | Text
    """Whether the same answer always gets the same reward."""
    resources_server: Text
    """The name of the folder in `resources_servers`."""
    agent_server: Text
    """The name of the folder in `responses_api_agents`."""
    datasets: list[Text | ManifestDataset]
    model_server: Text | None = None
    rollout_driver: Text | None = None
    grading_mode: Text | None = None
    session_model: Text | None = None
    state: Detail | None = None
    sandbox: Detail | None = None
    canonical_split: Text | None = None
    standard_prompt_config: Text | None = None
    adopted_from: Detail | None = None
    lifecycle: Detail | None = None


FIELDS: Final = tuple(Manifest.model_fields)


def read_manifest(path: Path) -> Manifest:
    """Return the manifest of a file.

    Raises ConfigError, which lists every problem with its file, line and key: the file cannot be
    read, is not YAML, has an unknown key, lacks a key, or a value is wrong.
    """
    return manifest_of(YamlDocument.read(path))


def manifest_of(document: YamlDocument) -> Manifest:
    """Return the manifest that a document contains. Raises ConfigError as `read_manifest` does."""
    try:
        return Manifest.model_validate(document.tree)
    except ValidationError as error:
        problems = _problems(document, error.errors(include_url=False))
        raise_problems(problems, hint=f"keys of a manifest: {', '.join(FIELDS)}")
        raise


def _problems(document: YamlDocument, errors: list[ErrorDetails]) -> list[Problem]:
    """Return one problem for each key that is wrong. A value may match none of several types; the
    key is then named once.
    """
    by_key: dict[str, Problem] = {}
    for error in errors:
        steps = _steps_in(document, error)
        key = ".".join(map(str, steps))
        if key not in by_key:
            line = document.line_of(steps)
            message = f"{document.path}, line {line}: {key}: {_sentence(error, steps)}"
            by_key[key] = Problem(message, key=key, file=str(document.path), line=line)
    return list(by_key.values())


def _steps_in(document: YamlDocument, error: ErrorDetails) -> tuple[int | str, ...]:
    """Return the keys that lead to the error, without the names of types that pydantic adds."""
    if error["type"] in {"missing", "extra_forbidden"}:
        return tuple(error["loc"])
    return document.known_steps(error["loc"])


def _sentence(error: ErrorDetails, steps: tuple[int | str, ...]) -> str:
    if error["type"] == "missing":
        return "is missing"
    if error["type"] == "extra_forbidden":
        fields = FIELDS if len(steps) == 1 else tuple(RewardDeclaration.model_fields)
        return f"is not a key of a manifest{did_you_mean(str(steps[-1]), fields)}"
    message = error["msg"].removeprefix("Value error, ")
    return f"{message}, not {error['input']!r}"
