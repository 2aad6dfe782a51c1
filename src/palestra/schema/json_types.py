"""Types for JSON objects that are read from or written to a file or the network: rows, bodies,
schemas.

Their fields are defined by others. Data that Palestra defines uses models or dataclasses.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

JsonDict: TypeAlias = dict[str, Any]
"""A JSON object that may be changed."""

JsonObject: TypeAlias = Mapping[str, Any]
"""A read-only JSON object."""
