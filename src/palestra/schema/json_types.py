"""A JSON object as it is read from a file or the wire, or written to one: a row, a body, a schema.

Its fields are whatever others put there. What Palestra defines is a model or a dataclass inside.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

JsonDict: TypeAlias = dict[str, Any]
"""An object to fill or to change."""

JsonObject: TypeAlias = Mapping[str, Any]
"""An object that is only read."""
