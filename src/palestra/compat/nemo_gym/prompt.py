"""`nemo_gym.prompt`: prompt templates. A template is a YAML file with `user` and optionally
`system`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from palestra.compat.project import resolve
from palestra.errors import ConfigError


class PromptConfig(BaseModel):
    """A prompt template with `{field}` placeholders."""

    model_config = ConfigDict(extra="allow")

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
    """Return the template's messages with the fields of `row` filled in."""
    messages = [{"role": "user", "content": prompt_config.user.format(**row)}]
    if prompt_config.system:
        messages.insert(0, {"role": "system", "content": prompt_config.system.format(**row)})
    return messages


apply_prompt = fill_prompt
