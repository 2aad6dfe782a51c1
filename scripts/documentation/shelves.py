"""Which page stands on which shelf: docs/README.md says so, by what each of its sections links to."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_PAGE = re.compile(r"\]\(([a-z-]+/[a-z-]+\.md)\)")
_SERVERS = {
    "resources_servers": "environments",
    "responses_api_agents": "agents",
    "responses_api_models": "models",
}


class PageWithoutShelf(Exception):
    """Documents that no section of docs/README.md links to. `pages`: their paths below docs/."""

    def __init__(self, pages: list[str]) -> None:
        super().__init__(f"no section of docs/README.md links to {', '.join(pages)}")
        self.pages = pages


@dataclass(frozen=True)
class Shelf:
    """One kind of pages. `folder`: below docs/; `pages`: in the order of docs/README.md."""

    title: str
    folder: str
    pages: tuple[Path, ...]


def read_shelves(docs: Path = DOCS) -> list[Shelf]:
    """The shelves of docs/README.md. Raises PageWithoutShelf for a page that no section links to."""
    parts = _SECTION.split((docs / "README.md").read_text(encoding="utf-8"))
    shelves = []
    for title, text in zip(parts[1::2], parts[2::2], strict=True):
        pages = tuple(dict.fromkeys(docs / link for link in _PAGE.findall(text)))
        if pages:
            shelves.append(Shelf(title, pages[0].parent.name, pages))
    on_shelves = {page for shelf in shelves for page in shelf.pages}
    if missing := {*docs.rglob("*.md")} - on_shelves - {docs / "README.md"}:
        raise PageWithoutShelf(sorted(str(page.relative_to(docs)) for page in missing))
    return shelves


def pages_of_servers() -> dict[Path, Path]:
    """The READMEs of environments, agents and model servers -> their places in the site."""
    package = REPOSITORY / "src" / "palestra"
    places = {}
    for folder, name in _SERVERS.items():
        if (overview := package / folder / "README.md").exists():
            places[overview] = Path("reference") / name / "overview.md"
        for readme in sorted(package.glob(f"{folder}/*/README.md")):
            places[readme] = Path("reference") / name / f"{readme.parent.name}.md"
    return places


def shelf_page(shelf: Shelf, places: Mapping[Path, Path], extra: Iterable[Path]) -> str:
    """The page that lists a shelf. `extra`: pages on it that are no documents of docs/."""
    own = [places[page].with_suffix("").name for page in shelf.pages]
    parts = [f"# {shelf.title}\n", _tree("", own)]
    groups: dict[str, list[str]] = {}
    for place in extra:
        inner = place.relative_to(shelf.folder).with_suffix("")
        groups.setdefault(str(inner.parent), []).append(str(inner))
    for group, names in sorted(groups.items()):
        title = "" if group == "." else group.capitalize()
        parts.append(
            _tree(title, sorted(names, key=lambda name: (name.count("overview") == 0, name)))
        )
    return "\n".join(parts)


def _tree(title: str, names: Iterable[str]) -> str:
    caption = f":caption: {title}\n" if title else ""
    return f"```{{toctree}}\n{caption}:maxdepth: 1\n\n" + "\n".join(names) + "\n```\n"
