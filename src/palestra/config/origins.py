"""Where the values of a configuration come from: config files and overrides."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from palestra.config.overrides import Override, apply_overrides
from palestra.config.problems import located
from palestra.config.sources import Source
from palestra.config.tree import ABSENT, Steps, value_at
from palestra.config.yaml_text import line_at
from palestra.errors import Problem
from palestra.system import file_and_line, shown

_WHOLE_REFERENCE = re.compile(r"\$\{\s*([\w.]+)\s*\}")
"""A value that is one reference to another key, with nothing beside it."""


@dataclass(frozen=True, slots=True)
class Origins:
    """The config files and the overrides of one configuration, from lowest to highest precedence."""

    sources: Sequence[Source] = ()
    overrides: Sequence[Override] = ()

    def of(self, *steps: Any) -> str:
        """Return the file, or the override, that sets the value at a path; empty when it is not known,
        as for a value that is composed of others.
        """
        file = self._file(steps)
        return self._override_text(steps) or ("" if file is None else shown(file))

    def line_of(self, *steps: Any) -> str:
        """Return the origin like `of`, a file with its line."""
        file = self.file(*steps)
        return self.of(*steps) if file is None else file_and_line(file, line_at(file, steps))

    def located(self, problem: Problem, *steps: Any) -> Problem:
        """Return a problem of the value at a path with its origin, with which its message begins.

        When no source has the value: with the origin of the mapping that should have it.
        """
        for end in range(len(steps), 0, -1):
            if text := self._override_text(steps[:end]):
                return replace(problem, message=f"{text}: {problem.message}")
            if path := self._file(steps[:end]):
                return located(problem, path, steps)
        return problem

    def file(self, *steps: Any) -> Path | None:
        """Return the file that sets the value at a path. None: no file does, or an override does."""
        return None if self.override(*steps) else self._file(steps)

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

    def references_below(self, *steps: Any) -> dict[str, tuple[str, str]]:
        """Return the values that the mapping at a path takes from another key of a file, as
        `${policy_api_key}`: by their keys in the mapping, the file and the other key. The file is empty
        when an override sets the other key.
        """
        references = {}
        for key, path in self.files_below(*steps).items():
            value = next(value_at(s.tree, (*steps, key)) for s in self.sources if s.path == path)
            match = _WHOLE_REFERENCE.fullmatch(value) if isinstance(value, str) else None
            steps_of_other = match[1].split(".") if match else ()
            if match and self.of(*steps_of_other):
                references[key] = (str(self.file(*steps_of_other) or ""), match[1])
        return references

    def _override_text(self, steps: Steps) -> str:
        override = self.override(*steps)
        return "" if override is None else f"override {override.action}{override.key}"

    def _file(self, steps: Steps) -> Path | None:
        files = [s.path for s in self.sources if value_at(s.tree, steps) is not ABSENT]
        return files[-1] if files else None


def _value_of(override: Override, steps: Steps) -> Any:
    """Return the value that an override sets at a path; ABSENT when it sets none, or a part of it."""
    at = len(override.steps)
    if override.value is ABSENT or override.steps != steps[:at]:
        return ABSENT
    return value_at(override.value, steps[at:])
