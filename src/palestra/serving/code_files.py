"""Whose code a file holds: an author's, a server's that comes with Palestra, or neither."""

import sysconfig
from pathlib import Path

_PACKAGE = str(Path(__file__).parent.parent)
_SERVERS = tuple(
    f"{_PACKAGE}/{kind}/"
    for kind in ("resources_servers", "responses_api_agents", "responses_api_models")
)
_LIBRARIES = tuple(
    {sysconfig.get_path(name) + "/" for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def is_servers_file(path: str) -> bool:
    """Whether a file is a server's: an author's own, or one of those that come with us."""
    return path.startswith(_SERVERS) or is_authors_file(path)


def is_authors_file(path: str) -> bool:
    """Whether a file is an author's own: neither a library's nor one that comes with us."""
    return not path.startswith(("<", f"{_PACKAGE}/", *_LIBRARIES))
