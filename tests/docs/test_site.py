"""The documentation's site: it is built from the checkout, is found in by words, and loads nothing."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from documents import REPOSITORY

from browsers import chromium

SCRIPTS = REPOSITORY / "scripts" / "documentation"
sys.path.insert(0, str(SCRIPTS))
from links import DeadLink, Links  # noqa: E402
from shelves import PageWithoutShelf, read_shelves  # noqa: E402

pytestmark = pytest.mark.source

QUESTIONS = {
    "how to resume": "Resume a run",
    "truncated": "Glossary",
    "pass@k formula": "pass@k",
    "add a tool": "Add a tool to an environment",
    "merge shards": "Merge the shards of a run",
    "429": "An endpoint that answers 429",
}
"""What a newcomer looks for -> a page that answers it."""


def rewritten(folder: Path, text: str) -> str:
    page = folder / "docs" / "topics" / "page.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text)
    readme = folder / "src" / "server" / "README.md"
    readme.parent.mkdir(parents=True, exist_ok=True)
    readme.write_text("# A server\n")
    places = {page: Path("topics/page.md"), readme: Path("reference/server.md")}
    return Links(folder, places).rewritten(page)


@pytest.mark.parametrize("target", ["../../src/server/README.md", "../../src/server"])
def test_a_link_to_a_readme_leads_to_its_page(tmp_path: Path, target: str) -> None:
    assert rewritten(tmp_path, f"see [it]({target})") == "see [it](../reference/server.md)\n"


def test_a_link_keeps_its_anchor(tmp_path: Path) -> None:
    text = rewritten(tmp_path, "[it](../../src/server/README.md#a-server)")

    assert text == "[it](../reference/server.md#a-server)\n"


def test_a_file_that_is_no_page_is_named_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("")

    assert rewritten(tmp_path, "[it](../../app.py)") == "it (`app.py`)\n"


def test_a_link_in_a_block_of_code_stays(tmp_path: Path) -> None:
    text = "```text\n[it](nowhere.md)\n```\n"

    assert rewritten(tmp_path, text) == text


def test_a_link_that_leads_nowhere_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(DeadLink) as caught:
        rewritten(tmp_path, "first\n\n[it](nowhere.md)")

    dead = caught.value
    assert (dead.document, dead.line, dead.target) == (
        Path("docs/topics/page.md"),
        3,
        "nowhere.md",
    )


def test_a_page_that_no_shelf_has_is_refused(tmp_path: Path) -> None:
    (tmp_path / "topics").mkdir()
    for name in ("known", "forgotten"):
        (tmp_path / "topics" / f"{name}.md").write_text(f"# {name}\n")
    (tmp_path / "README.md").write_text("# Docs\n\n## Topics\n\n- [known](topics/known.md)\n")

    with pytest.raises(PageWithoutShelf) as caught:
        read_shelves(tmp_path)

    assert caught.value.pages == ["topics/forgotten.md"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, str(SCRIPTS), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def page(site: Path) -> Iterator[Any]:
    with chromium() as browser:
        opened = browser.new_page()
        opened.set_default_timeout(30_000)
        yield opened


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("words", QUESTIONS)
def test_the_search_finds_the_page_that_answers(site: Path, page: Any, words: str) -> None:
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))

    page.goto(f"{(site / 'search.html').as_uri()}?q={words.replace(' ', '+').replace('@', '%40')}")
    # The results appear one after the other.
    title = re.compile(f"^{re.escape(QUESTIONS[words])}$")
    page.locator("#search-results li > a").filter(has_text=title).first.wait_for()

    assert {url.split(":")[0] for url in requests} == {"file"}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "place",
    ["reference/commands/eval.html", "reference/settings.html", "reference/python/training.html"],
)
def test_the_reference_is_made_from_the_code(site: Path, place: str) -> None:
    text = (site / place).read_text()

    assert {
        "reference/commands/eval.html": "--max-output-tokens",
        "reference/settings.html": "num_samples_in_parallel",
        "reference/python/training.html": "RolloutClient",
    }[place] in text
