"""Write tests/public_names.txt: every name that a package offers to the others, one a line.

A package's door is the `__all__` of its `__init__`. `make names` runs this after a door has changed
on purpose; the difference is then part of the change, for a reviewer to see.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = REPOSITORY / "src" / "palestra"
RECORD = REPOSITORY / "tests" / "public_names.txt"


def names_of(door: Path) -> list[str]:
    """`__all__` as the file has it: nothing is imported."""
    for node in ast.parse(door.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return sorted(ast.literal_eval(node.value))
    return []


def public_names(package: Path) -> Iterator[str]:
    """`palestra.package.name`, for each package of Palestra's folder in turn."""
    for door in sorted(package.glob("*/__init__.py")):
        yield from (f"palestra.{door.parent.name}.{name}" for name in names_of(door))


if __name__ == "__main__":
    RECORD.write_text("".join(f"{name}\n" for name in public_names(PACKAGE)))
