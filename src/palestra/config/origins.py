"""Where the values of a configuration come from: config files and overrides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palestra.config.overrides import Override, apply_overrides
from palestra.config.sources import Source
from palestra.config.tree import ABSENT, Steps, value_at
from palestra.system import shown


@dataclass(frozen=True, slots=True)
class Origins:
    """The config files and the overrides of one configuration, from lowest to highest precedence."""

    sources: Sequence[Source] = ()
    overrides: Sequence[Override] = ()

    def of(self, *steps: Any) -> str:
        """Return the file, or the override, that sets the value at a path; empty when it is not known,
        as for a value that is composed of others.
        """
        override = self.override(*steps)
        if override is not None:
            return f"override {override.action}{override.key}"
        file = self._file(steps)
        return "" if file is None else shown(file)

    def override(self, *steps: Any) -> Override | None:
        """Return the last override that sets the value at a path, or a part of one that no file has;
        None when there is none.
        """
        setting = [o for o in self.overrides if _value_of(o, steps) is not ABSENT]
        if not setting and self._file(steps) is None:
            setting = [
                o
                for o in self.overrides
                if o.value is not ABSENT and o.steps[: len(steps)] == steps
            ]
        return setting[-1] if setting else None

    def start(self, *steps: Any) -> str:
        """Return the start of a message about the value at a path: its origin and a colon, or
        nothing.
        """
        origin = self.of(*steps)
        return f"{origin}: " if origin else ""

    def files_below(self, *steps: Any) -> dict[str, Path]:
        """Return the file that sets each key of the mapping at a path; of several, the last one. A key
        of which an override sets a part has no file.
        """
        overriding = apply_overrides({}, [o for o in self.overrides if o.value is not ABSENT])
        overridden = value_at(overriding, steps)
        overridden_keys = overridden if isinstance(overridden, Mapping) else {}
        return {
            key: source.path
            for source in self.sources
            if isinstance(block := value_at(source.tree, steps), Mapping)
            for key in block
            if key not in overridden_keys
        }

    def _file(self, steps: Steps) -> Path | None:
        files = [s.path for s in self.sources if value_at(s.tree, steps) is not ABSENT]
        return files[-1] if files else None


def _value_of(override: Override, steps: Steps) -> Any:
    """Return the value that an override sets at a path; ABSENT when it sets none, or a part of it."""
    at = len(override.steps)
    if override.value is ABSENT or override.steps != steps[:at]:
        return ABSENT
    return value_at(override.value, steps[at:])
