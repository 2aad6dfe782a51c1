"""Palestra's own sandboxes as providers: `auto` (also `local` and `palestra`), `bubblewrap`,
`process` and `http`.
"""

from palestra.compat.nemo_gym.sandbox.providers.local.provider import (
    BubblewrapProvider,
    HttpProvider,
    LocalProvider,
    ProcessProvider,
)

__all__ = ["BubblewrapProvider", "HttpProvider", "LocalProvider", "ProcessProvider"]
