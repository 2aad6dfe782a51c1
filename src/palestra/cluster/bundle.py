"""The supervisor as one file that a bare Python runs: what a job needs before anything else."""

import io
import zipfile
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent.parent
SYSTEM: Final = ("processes", "files", "locks", "commands", "parents")
"""Of `palestra.system`: what an old Python can run."""
MODULES: Final = (
    *(f"cluster/{name}.py" for name in ("layout", "lease", "plan", "ports", "records", "shard")),
    "cluster/supervisor/*.py",
    *(f"system/{name}.py" for name in SYSTEM),
)
_MAIN: Final = """import sys

from palestra.cluster.supervisor.__main__ import main

raise SystemExit(main(sys.argv[1:]))
"""
_SYSTEM_DOOR: Final = "".join(f"from palestra.system.{name} import *\n" for name in SYSTEM)
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


def supervisor_zip() -> bytes:
    """The same bytes for the same code."""
    found = {
        f"palestra/{path.relative_to(HERE)}": path.read_bytes()
        for pattern in MODULES
        for path in sorted(HERE.glob(pattern))
    }
    files = {
        "__main__.py": _MAIN.encode(),
        "palestra/__init__.py": b"",
        "palestra/cluster/__init__.py": b"",
        "palestra/system/__init__.py": _SYSTEM_DOOR.encode(),
        **found,
    }
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)
    return held.getvalue()
