"""Which config files of a run its re-verification needs: those of the environments, not the others
of a fleet.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from palestra.api.fleet_connection import FleetChoice
from palestra.config import ResolvedConfig, ServerType, files_needed, override_key
from palestra.schema import AGENT_REF
from palestra.settings import CollectSettings

_OF_FILES: Final = re.compile(r"(\+{0,2}config_paths=)\[([^'\"\[\]{}$\s]+)\]")
"""An override of `config_paths` whose paths are separated by commas alone."""
_MARK: Final = f'"{AGENT_REF}"'.encode()
_AGENT: Final = re.compile(rb'"agent_ref":\s*\{[^{}]*"name":\s*"([^"\\]+)"')


def with_needed_files(
    overrides: Sequence[str], choice: FleetChoice, settings: CollectSettings
) -> Iterator[str]:
    """Yield the overrides, that of `config_paths` without the files that are not needed."""
    for override in overrides:
        match = _OF_FILES.fullmatch(override)
        if match is None:
            yield override
        else:
            paths = needed_files(match[2].split(","), overrides, choice, settings)
            yield f"{match[1]}[{','.join(paths)}]"


def needed_files(
    paths: list[str], overrides: Sequence[str], choice: FleetChoice, settings: CollectSettings
) -> list[str]:
    """Return those of the config files without which the run's environments cannot verify, or the
    overrides have no server.
    """
    instances = choice.config.instances
    agents = _agents_of_rows(settings, choice.config) if len(paths) > 1 else None
    if agents is None or not agents <= instances.keys():
        return paths
    environments = {
        name for agent in agents for name in instances[agent].referenced(ServerType.RESOURCES)
    }
    changed = {override_key(word).partition(".")[0] for word in overrides}
    servers = agents | environments | changed & instances.keys()
    return files_needed(servers, paths, apart_from=agents, cwd=choice.folder)


def _agents_of_rows(settings: CollectSettings, config: ResolvedConfig) -> set[str] | None:
    """Return the names of the agents that the rows go to; None when a quick look does not show
    them.
    """
    configured = [agent.name for agent in config.instances_of(ServerType.AGENT)]
    default = settings.agent_name or (configured[0] if len(configured) == 1 else None)
    agents: set[str] = set()
    for source in settings.inputs:
        name = source.agent or default
        if name is None or source.content is not None or not source.path.is_file():
            return None
        agents.add(name)
        with source.path.open("rb") as lines:
            for line in lines:
                if _MARK not in line:
                    continue
                match = _AGENT.search(line)
                if match is None:
                    return None
                agents.add(match[1].decode(errors="replace"))
    return agents
