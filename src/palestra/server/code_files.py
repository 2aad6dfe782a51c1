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
_INSTALLED = ("/site-packages/", "/dist-packages/")
"""Folders of libraries, those of other interpreters and of the user's too."""


def is_servers_file(path: str) -> bool:
    """Whether a file is a server's: an author's own, or one of those that come with us."""
    return path.startswith(_SERVERS) or is_authors_file(path)


def is_authors_file(path: str) -> bool:
    """Whether a file is an author's own: neither a library's nor one that comes with us."""
    is_library = path.startswith(_LIBRARIES) or any(folder in path for folder in _INSTALLED)
    return not is_library and not path.startswith(("<", f"{_PACKAGE}/"))
