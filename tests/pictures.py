"""Pictures of pages: taken so that they are always the same, and held to the recorded ones."""

import io
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

RECORDED_WITH = "browser.txt"
SAME_CHANNEL = 8
"""A channel of a pixel, 0 to 255, may differ by so much: smoothed edges are rounded differently."""
DIFFERING = 0.001
"""The share of pixels that may differ."""
SETTLED_S = 5.0
"""Within so many seconds a page shows all that it has asked the server for."""
FONTS = {"--sans": "DejaVu Sans", "--mono": "DejaVu Sans Mono"}
"""Of Debian's fonts-dejavu-core, which .ci/run installs beside the browser."""
ARGUMENTS = ("--font-render-hinting=none", "--disable-lcd-text", "--force-color-profile=srgb")
_STILL = """(fonts) => {
  const sheet = new CSSStyleSheet();
  const names = Object.entries(fonts).map(([name, font]) => `${name}: "${font}";`).join(" ");
  sheet.replaceSync(`:root { ${names} }
    * { animation: none !important; transition: none !important; caret-color: transparent !important; }
    .varies { visibility: hidden !important; white-space: nowrap !important; overflow: hidden; }`);
  document.adoptedStyleSheets.push(sheet);
  return document.fonts.ready.then(() => true);
}"""
_HIDE = """(selectors) => document.querySelectorAll(selectors)
  .forEach((element) => element.classList.add("varies"))"""


def is_writing() -> bool:
    """Whether `make pictures` writes the recorded pictures anew."""
    return os.environ.get("PALESTRA_WRITE_PICTURES") == "1"


def require_fonts() -> None:
    """Skip where a font of the pictures is missing, and fail there in CI."""
    finder = shutil.which("fc-match")
    for font in FONTS.values():
        match = subprocess.run(
            [finder or "false", "--format=%{family}", font], check=False, capture_output=True
        )
        if font not in match.stdout.decode().split(","):
            assert not os.environ.get("CI"), f"CI needs the font {font}"
            pytest.skip(f"the font {font} is missing; on Debian: apt-get install fonts-dejavu-core")


@dataclass(frozen=True)
class Album:
    """The recorded pictures of a folder, and the browser that drew them."""

    folder: Path

    def require(self, version: str) -> None:
        """Skip where this browser draws with another engine than the recorded one. A picture is
        never taken as equal unseen: the reason names both versions.
        """
        recorded = self.folder / RECORDED_WITH
        if is_writing():
            recorded.write_text(f"{version}\n")
            return
        drawn_by = recorded.read_text().strip()
        if drawn_by.partition(".")[0] != version.partition(".")[0]:
            pytest.skip(
                f"the pictures are of Chromium {drawn_by}, and this one is {version}: look at the "
                "pages, then `make pictures`"
            )

    def hold(self, name: str, page: Any, actual: Path, *, varies: str = "") -> None:
        """Compare the window of a page with its recorded picture.

        `varies`: selectors of what depends on the machine, such as paths; it is left blank.
        `actual`: where the picture of now is put when it differs.
        """
        page.evaluate(_STILL, FONTS)
        page.mouse.move(0, 0)
        path = self.folder / f"{name}.png"
        if is_writing():
            page.wait_for_timeout(1000 * SETTLED_S)
            _taken(page, varies).save(path, optimize=True)
            return
        recorded = Image.open(path).convert("RGB")
        deadline = time.monotonic() + SETTLED_S
        while (share := differing(shot := _taken(page, varies), recorded)) > DIFFERING:
            if time.monotonic() > deadline:
                shot.save(actual)
                raise AssertionError(f"{share:.2%} of {path} differ from {actual}")
            page.wait_for_timeout(200)


def _taken(page: Any, varies: str) -> Image.Image:
    """Return a picture of the window, without what `varies`."""
    if varies:
        page.evaluate(_HIDE, varies)
    return Image.open(io.BytesIO(page.screenshot(animations="disabled"))).convert("RGB")


def differing(one: Image.Image, other: Image.Image) -> float:
    """The share of pixels that differ; 1 when the sizes do."""
    if one.size != other.size:
        return 1.0
    distance = np.abs(np.asarray(one, dtype=np.int16) - np.asarray(other, dtype=np.int16))
    return float((distance.max(axis=2) > SAME_CHANNEL).mean())
