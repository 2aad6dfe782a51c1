"""`nemo_gym.prompt`: prompt templates, YAML files with `user` and perhaps `system`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from palestra.compat.project import resolve
from palestra.errors import ConfigError


class PromptConfig(BaseModel):
    """A template with `{field}` placeholders."""

    model_config = ConfigDict(extra="allow")

    user: str
    system: str | None = None

    def fill(self, row: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The messages of one row."""
        return fill_prompt(self, row)


def load_prompt_config(path: str | Path) -> PromptConfig:
    """Read a template; relative paths start at the working directory, then at the project."""
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
    """The messages of one row."""
    messages = [{"role": "user", "content": prompt_config.user.format(**row)}]
    if prompt_config.system:
        messages.insert(0, {"role": "system", "content": prompt_config.system.format(**row)})
    return messages


apply_prompt = fill_prompt
