"""Pages of the viewer in a real browser, and what a test asks of them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from viewed_runs import Viewer

AXE = Path(__file__).parents[1] / "viewer-ui/node_modules/axe-core/axe.min.js"
WAIT_MS = 30_000
_SETTLED = """() => document.querySelector("main h1, main h2, main .error")
  && !document.querySelector('[aria-busy="true"], .waiting')"""
_TWO_FRAMES = """() => new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(done)))"""
_VIOLATIONS = """async () => (await axe.run(document, { resultTypes: ["violations"] })).violations
  .map((found) => `${found.id}: ${found.nodes.map((node) => node.html.slice(0, 150)).join(" | ")}`)"""
_OUTSIDE = """() => [...document.querySelectorAll("body *")]
  .filter((element) => !element.closest(".scrolling, .token-cells, .hidden, .skip"))
  .filter((element) => element.getBoundingClientRect().right > innerWidth + 1)
  .map((element) => `${element.tagName}.${element.getAttribute("class")}`)"""


@dataclass
class Opened:
    """A page, and all that it asked for, complained of, or opened."""

    page: Any
    viewer: Viewer
    clicks: int = 0
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    @property
    def place(self) -> str:
        """The URL below the origin."""
        return str(self.page.url).removeprefix(self.viewer.origin)

    def go(self, place: str) -> "Opened":
        self.page.goto(self.viewer.origin + place)
        return self.settled()

    def hears(self, response: Any) -> None:
        if response.status >= 400:
            self.complaints.append(f"{response.status} {response.url}")

    def meets(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def settled(self) -> "Opened":
        """Wait until no part of the page waits for a reply."""
        self.page.evaluate(_TWO_FRAMES)  # what a key or a click begins is drawn by then
        self.page.wait_for_function(_SETTLED)
        self.page.evaluate(_TWO_FRAMES)  # the keys of a part are heard once it is drawn
        return self

    def click(self, selector: str) -> "Opened":
        """One click of a reader's, and what follows."""
        self.clicks += 1
        self.page.locator(selector).first.click()
        return self.settled()

    def press(self, *keys: str) -> "Opened":
        for key in keys:
            self.page.keyboard.press(key)
        return self.settled()

    def text(self, selector: str = "main") -> str:
        return str(self.page.locator(selector).first.inner_text())

    def violations(self) -> list[str]:
        """What axe-core finds on the page."""
        if not AXE.is_file() and not os.environ.get("CI"):
            pytest.skip("axe-core is not installed: run make viewer")
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        return list(self.page.evaluate(_VIOLATIONS))

    def outside(self) -> list[str]:
        """What is wider than the window, without what scrolls by itself."""
        return list(self.page.evaluate(_OUTSIDE))


@contextmanager
def opened(
    browser: Any, viewer: Viewer, *, width: int = 1280, height: int = 900, **options: Any
) -> Iterator[Opened]:
    """A page at the address that the viewer printed."""
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    shown = Opened(context.new_page(), viewer)
    shown.page.set_default_timeout(WAIT_MS)
    context.on("request", lambda request: shown.requests.append(request.url))
    shown.page.on("pageerror", lambda error: shown.complaints.append(str(error)))
    shown.page.on("console", lambda line: shown.complaints.append(line.text))
    shown.page.on("response", shown.hears)
    shown.page.on("dialog", shown.meets)
    shown.page.goto(viewer.address)
    yield shown.settled()
    context.close()
