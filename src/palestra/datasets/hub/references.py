"""Rows of the hub by one text: `hf:org/name[@revision][:config][/split]`."""

import re
from dataclasses import dataclass
from typing import Final, Self

from palestra.errors import ConfigError

PREFIX: Final = "hf:"
FORM: Final = "hf:org/name[@revision][:config][/split]"
_REPOSITORY: Final = r"hf:(?P<repo_id>[^/@:\s]+/[^/@:\s]+)"
_SPLIT: Final = r"(?:/(?P<split>[^/@:\s]+))?"
_FORMS: Final = (
    re.compile(_REPOSITORY + r"(?:@(?P<revision>[^/:\s]+))?(?::(?P<config>[^/@:\s]+))?" + _SPLIT),
    # Only in front of a config is the end of a revision with slashes known.
    re.compile(_REPOSITORY + r"@(?P<revision>[^:\s]+):(?P<config>[^/@:\s]+)" + _SPLIT),
)


@dataclass(frozen=True, slots=True)
class HubReference:
    """A split of a dataset on the hub. Empty: the default of the repository."""

    repo_id: str
    revision: str = ""
    config: str = ""
    split: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the parts of `hf:org/name[@revision][:config][/split]`. Raises ConfigError."""
        match = next((m for form in _FORMS if (m := form.fullmatch(text))), None)
        if match is None:
            raise ConfigError(f"{text!r} names no dataset of the hub", hint=FORM)
        return cls(**{name: value or "" for name, value in match.groupdict().items()})

    def __str__(self) -> str:
        revision = f"@{self.revision}" if self.revision else ""
        config = f":{self.config}" if self.config else ""
        return f"{PREFIX}{self.repo_id}{revision}{config}" + (
            f"/{self.split}" if self.split else ""
        )
