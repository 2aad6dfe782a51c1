"""Programs that install packages."""

import importlib.util
import shutil
import sys


def uv_command() -> list[str] | None:
    """Return the beginning of uv's command line: the package of this interpreter, else the program
    in the PATH. None: uv is not installed.
    """
    if importlib.util.find_spec("uv") is not None:
        return [sys.executable, "-P", "-m", "uv"]
    program = shutil.which("uv")
    return None if program is None else [program]
