"""The pages of the viewer as pictures: three widths, two themes.

`make pictures` records them anew. Look at them before you commit them.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from browsers import chromium
from pictures import ARGUMENTS, DIFFERING, Album, differing, require_fonts
from viewed_runs import Shape, Viewer, viewing, wait_for_indexes, write_run
from viewer_pages import opened

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ALBUM = Album(Path(__file__).with_name("golden"))
WRITTEN_AT = 1_795_730_000
"""The time of the files: 2026-11-26, 21:53 UTC."""
SIZES = {400: 640, 900: 560, 1440: 620}
"""Heights by width, in pixels: enough for each kind of part, and small files."""
PLACES = {
    "runs": "/",
    "run": "/r/{failing}",
    "rollouts": "/r/{failing}/rollouts",
    "rollout": "/r/{whole}/t/12/1",
}
VARIES = "main > .lead, details.rest"
"""Paths of temporary folders, and the port."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    require_fonts()
    with chromium(*ARGUMENTS) as browser:
        ALBUM.require(browser.version)
        yield browser


@pytest.fixture(scope="module")
def viewer() -> Iterator[Viewer]:
    # A short path, however the tests are run: it takes one line of the page.
    with tempfile.TemporaryDirectory(prefix="runs-") as name:
        folder = Path(name) / "runs"
        write_run(folder / "whole", Shape())
        write_run(folder / "failing", Shape(tasks=60, rollouts=6, failing=0.33))
        for path in folder.rglob("*"):
            os.utime(path, (WRITTEN_AT, WRITTEN_AT))
        with viewing(folder, cache=Path(name) / "cache") as viewer:
            yield viewer


@pytest.fixture(scope="module")
def ids(viewer: Viewer) -> dict[str, str]:
    return wait_for_indexes(viewer)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", SIZES)
def test_pages_look_as_recorded(
    browser: Any, viewer: Viewer, ids: dict[str, str], tmp_path: Path, width: int, theme: str
) -> None:
    look = {"color_scheme": theme, "timezone_id": "UTC", "locale": "en-US"}
    with opened(browser, viewer, width=width, height=SIZES[width], **look) as shown:
        for name, place in PLACES.items():
            picture = f"{name}-{width}-{theme}"
            page = shown.go(place.format(**ids)).page
            ALBUM.hold(picture, page, tmp_path / f"{picture}.png", varies=VARIES)


def test_a_picture_that_differs_in_a_word_is_seen() -> None:
    recorded = Image.open(ALBUM.folder / "run-1440-light.png").convert("RGB")
    changed = recorded.copy()
    changed.paste((0, 0, 0), (100, 100, 160, 125))

    assert differing(recorded, recorded) == 0
    assert differing(recorded, changed) > DIFFERING
