"""What the tests of `palestra.config` share: a place to load configurations from."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palestra.config import ResolvedConfig, load_config

FLEET = """
policy_model:
  responses_api_models:
    openai_model:
      openai_base_url: ${policy_base_url}
      openai_api_key: ${policy_api_key}
mcqa:
  resources_servers:
    mcqa:
      domain: knowledge
agent:
  responses_api_agents:
    simple_agent:
      model_server: {type: responses_api_models, name: policy_model}
      resources_server: {type: resources_servers, name: mcqa}
"""
POLICY = ("++policy_base_url=http://localhost:8000/v1", "++policy_api_key=sk-abc123")


@dataclass(frozen=True)
class World:
    """A working directory and an installed package, both of them empty folders of a test."""

    cwd: Path
    package: Path

    def write(self, name: str, text: str, *, package: bool = False) -> Path:
        path = (self.package if package else self.cwd) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def load(self, *overrides: str, **options: Any) -> ResolvedConfig:
        return load_config(overrides=overrides, cwd=self.cwd, package_root=self.package, **options)

    def load_text(self, text: str, *overrides: str, **options: Any) -> ResolvedConfig:
        self.write("config.yaml", text)
        return self.load(*overrides, config_paths=["config.yaml"], **options)
