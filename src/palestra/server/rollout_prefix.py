"""`/ng-rollout/<id>/…`: a request that names its rollout in its path.

Agents that run somebody else's program have nothing but a base URL to say whom its calls are for.
The id is `{task}-{rollout}`, with `-a{attempt}`, or a name of the agent's own; what is below it is
the server as it is.
"""

import re
from typing import Final
from urllib.parse import quote, unquote

from palestra.errors import RowIdentity
from palestra.server.caller import Message

PREFIX: Final = "/ng-rollout/"
_BELOW: Final = re.compile(r"/ng-rollout/([^/]+)(?:/training-token-capture(?=/|$))?")
_ROW: Final = re.compile(r"(\d+)-(\d+)(?:-a(\d+))?")


def without_prefix(scope: Message) -> tuple[Message, RowIdentity | None]:
    """The request without it, and the rollout that it names, where the id tells."""
    raw = scope.get("raw_path") or quote(scope["path"]).encode()
    # As it was sent: an id may hold a quoted slash.
    sent = raw.decode("latin-1")
    found = _BELOW.match(sent)
    if found is None:
        return scope, None
    path = sent[found.end() :] or "/"
    named = _ROW.fullmatch(found[1])
    row = named and RowIdentity(int(named[1]), int(named[2]), int(named[3] or 1))
    return {**scope, "path": unquote(path), "raw_path": path.encode("latin-1")}, row
