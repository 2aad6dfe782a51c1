"""Build the documentation's site from the documents and the code. `make site`.

It is written into `site` below the folder that is named, which is `build` without one.

A page stands on the shelf whose section of docs/README.md links to it. A link that leads nowhere, a
page that no shelf has, and every other complaint of Sphinx's end the build with exit code 1.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from links import DeadLink, Links
from reference import generated_pages
from shelves import REPOSITORY, PageWithoutShelf, Shelf, pages_of_servers, read_shelves, shelf_page

DEADLINE_S = 600


def write_source(source: Path) -> None:
    """Every page of the site as Markdown, its links rewritten to the site's own."""
    shutil.rmtree(source, ignore_errors=True)
    shelves = read_shelves()
    places = {page: page.relative_to(REPOSITORY / "docs") for s in shelves for page in s.pages}
    servers = pages_of_servers()
    places |= servers
    places[REPOSITORY / "docs" / "README.md"] = Path("index.md")
    links = Links(REPOSITORY, places)
    for document, place in places.items():
        _write(source / place, links.rewritten(document))
    generated = generated_pages()
    for place, text in generated.items():
        _write(source / place, text)
    _write(source / "index.md", _index(links, shelves))
    for shelf in shelves:
        extra = [*generated, *servers.values()] if shelf.folder == "reference" else []
        _write(source / shelf.folder / "index.md", shelf_page(shelf, places, extra))


def _index(links: Links, shelves: list[Shelf]) -> str:
    tree = "\n".join(f"{shelf.folder}/index" for shelf in shelves)
    text = links.rewritten(REPOSITORY / "docs" / "README.md")
    return f"{text}\n```{{toctree}}\n:hidden:\n:maxdepth: 2\n\n{tree}\n```\n"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def build(source: Path, site: Path) -> int:
    """Run Sphinx over the pages; its exit code."""
    shutil.rmtree(site, ignore_errors=True)
    configuration = Path(__file__).parent
    options = ["-W", "--keep-going", "-q", "-j", "2", "-c", str(configuration)]
    command = [sys.executable, "-m", "sphinx", "-b", "html", *options, str(source), str(site)]
    return subprocess.run(command, check=False, timeout=DEADLINE_S).returncode  # noqa: S603


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else REPOSITORY / "build"
    try:
        write_source(folder / "site-source")
    except (DeadLink, PageWithoutShelf) as error:
        sys.exit(f"error: {error}")
    code = build(folder / "site-source", folder / "site")
    if code == 0:
        print(f"wrote {folder / 'site' / 'index.html'}")
    sys.exit(code)
