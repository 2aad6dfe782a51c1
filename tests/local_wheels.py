"""Wheels written by hand: packages that no registry has, for requirements that need no network."""

import zipfile
from pathlib import Path


def write_wheel(folder: Path, name: str, source: str = "") -> Path:
    """Write the wheel of version 1.0 of a package: one module `name` with this source."""
    info = f"{name}-1.0.dist-info"
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", source)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path
