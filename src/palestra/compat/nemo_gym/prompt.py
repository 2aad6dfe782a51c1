"""`nemo_gym.prompt`: prompt templates. A template is a YAML file with `user` and optionally
`system`.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from palestra.compat.project import resolve
from palestra.datasets import PromptTemplate
from palestra.errors import ConfigError
from palestra.schema import CREATE_PARAMS


class PromptConfig(BaseModel):
    """A prompt template with `{field}` placeholders."""

    model_config = ConfigDict(extra="forbid")

    user: str
    system: str | None = None

    def fill(self, row: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the template's messages with the fields of `row` filled in."""
        return fill_prompt(self, row)


def load_prompt_config(path: str | Path) -> PromptConfig:
    """Read a template. Relative paths are looked up in the working directory, then in the project."""
    prompt_file = resolve(path)
    try:
        prompt = yaml.safe_load(prompt_file.read_text())
    except OSError as error:
        raise FileNotFoundError(f"prompt config {path} does not exist") from error
    if isinstance(prompt, str):
        prompt = {"user": prompt}
    if not isinstance(prompt, dict):
        raise ConfigError(f"prompt config {path} holds no template", hint="user: ...")
    return PromptConfig.model_validate(prompt)


def fill_prompt(prompt_config: PromptConfig, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the template's messages with the fields of `row` filled in, the system message first.

    Raises KeyError: the row lacks a field of the template.
    """
    template = PromptTemplate(user=prompt_config.user, system=prompt_config.system or "")
    if missing := template.missing(row):
        raise KeyError(
            f"the prompt needs {', '.join(map(repr, missing))}, and the row has the fields "
            f"{', '.join(map(repr, sorted(row)))}"
        )
    return [dict(message) for message in template.fill(row)]


apply_prompt = fill_prompt


def apply_prompt_to_row(row: Mapping[str, Any], prompt_config: PromptConfig) -> dict[str, Any]:
    """Return a new row whose `responses_create_params.input` is the filled template.

    The other parameters stay, and `row` is not changed. Raises KeyError: the row lacks a field of
    the template.
    """
    params = row.get(CREATE_PARAMS) or {}
    return {**row, CREATE_PARAMS: {**params, "input": fill_prompt(prompt_config, row)}}


def validate_prompt_compatibility(
    rows: Iterable[Mapping[str, Any]], prompt_config: PromptConfig | None
) -> None:
    """Check that no row has an input, which the template would replace.

    Raises ValueError, which names the index of every such row, from 0 on.
    """
    if prompt_config is None:
        return
    filled = [index for index, row in enumerate(rows) if "input" in (row.get(CREATE_PARAMS) or {})]
    if filled:
        raise ValueError(
            f"prompt_config would replace {CREATE_PARAMS}.input, which these rows have already: "
            f"{', '.join(map(str, filled))}; remove it from the rows, or leave prompt_config out"
        )
