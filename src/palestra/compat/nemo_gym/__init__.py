"""The replacement for `import nemo_gym` when that package is not installed; also a pytest plugin.

    pytest -p palestra.compat.nemo_gym

makes `nemo_gym.*` and the servers of the project importable in tests, and runs `async def` tests.
"""

from pathlib import Path
from typing import Any

import palestra

__version__ = palestra.__version__
__package_name__ = "nemo_gym"

pytest_plugins = ("palestra.compat.pytest_plugin",)


def __getattr__(name: str) -> Any:
    # Found when asked for: the project is the one that runs, not where this file is.
    from palestra.compat.project import root

    if name in {"PARENT_DIR", "ROOT_DIR"}:
        return root()
    if name == "WORKING_DIR":
        return Path.cwd()
    if name in {"CACHE_DIR", "RESULTS_DIR"}:
        return root() / name.removesuffix("_DIR").lower()
    raise AttributeError(f"module 'nemo_gym' has no attribute {name!r}")
