"""Print a configuration for people."""

from palestra.config.redact import redact
from palestra.config.resolved import ResolvedConfig
from palestra.config.yaml_text import write_yaml


def dump_yaml(config: ResolvedConfig) -> str:
    """The resolved configuration as YAML, exactly as the system sees it, secrets masked."""
    return write_yaml(redact(config.tree, config.secrets))
