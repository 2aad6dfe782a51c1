"""Links of the documents, which lead to files of the repository, as links of the site."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

_LINK = re.compile(r"\[((?:[^\[\]]|`[^`]*`)*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^\s*```")


class DeadLink(Exception):
    """A document links to a file that does not exist."""

    def __init__(self, document: Path, line: int, target: str) -> None:
        super().__init__(f"{document}:{line}: {target} does not exist")
        self.document, self.line, self.target = document, line, target


class Links:
    """Rewrites documents. `places`: a document of the repository -> its place in the site."""

    def __init__(self, repository: Path, places: Mapping[Path, Path]) -> None:
        self._repository = repository
        self._places = places

    def rewritten(self, document: Path) -> str:
        """The text with every link to a page of the site; other files are named by their paths.

        Raises DeadLink.
        """
        lines, is_code = [], False
        for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), start=1):
            is_code ^= _FENCE.match(line) is not None
            lines.append(line if is_code else self._line(document, number, line))
        return "\n".join(lines) + "\n"

    def _line(self, document: Path, number: int, line: str) -> str:
        def link(match: re.Match[str]) -> str:
            text, target = match[1], match[2]
            path, sharp, anchor = target.partition("#")
            if "://" in target or not path:
                return match[0]
            file = Path(os.path.normpath(document.parent / path))
            if file.is_dir() and (file / "README.md") in self._places:
                file /= "README.md"
            if not file.exists():
                raise DeadLink(document.relative_to(self._repository), number, target)
            if file not in self._places:
                return f"{text} (`{file.relative_to(self._repository)}`)"
            there = os.path.relpath(self._places[file], self._places[document].parent)
            return f"[{text}]({there}{sharp}{anchor})"

        return _LINK.sub(link, line)
