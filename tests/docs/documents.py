"""Reading the documents: their commands, their files, their links."""

import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EXIT_CODE = re.compile(r"\s+# exit code (\d+)$")
_LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    language: str
    text: str


def blocks(path: Path) -> list[Block]:
    """The fenced blocks of a document, in order."""
    return [Block(m[1], m[2]) for m in _BLOCK.finditer(path.read_text())]


def console_commands(path: Path) -> list[str]:
    """The commands that a document tells its reader to type."""
    texts = [b.text.replace("\\\n", "") for b in blocks(path) if b.language == "console"]
    lines = (line for text in texts for line in text.splitlines())
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def exit_code(command: str) -> tuple[str, int]:
    """A command without its comment, and the exit code that the comment announces; 0 without one."""
    announced = _EXIT_CODE.search(command)
    return (command[: announced.start()], int(announced[1])) if announced else (command, 0)


def files(path: Path) -> dict[str, str]:
    """The files that a document shows whole: blocks that begin with their name in a comment."""
    found = (b.text for b in blocks(path) if b.language in {"python", "yaml"})
    named = {text.split("\n", 1)[0][2:]: text for text in found if text.startswith("# ")}
    return {name: text for name, text in named.items() if " " not in name}


def links(path: Path) -> list[Path]:
    """Where a document's relative links point to."""
    targets = _LINK.findall(path.read_text())
    return [path.parent / target for target in targets if "://" not in target]


def documents() -> list[Path]:
    """Every Markdown document of the repository."""
    folders = ("docs", "src", "benchmarks", "examples")
    nested = [path for folder in folders for path in (REPOSITORY / folder).rglob("*.md")]
    return [*REPOSITORY.glob("*.md"), *nested]
