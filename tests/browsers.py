"""The system's Chromium, for what people look at in a browser."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def chromium(*arguments: str) -> Iterator[Any]:
    """A browser of Playwright's. Skips where there is none, and fails there in CI."""
    executable = shutil.which("chromium")
    if executable is None and not os.environ.get("CI"):
        pytest.skip("no chromium on this machine; on Debian: apt-get install chromium")
    assert executable, "CI needs Debian's chromium; .ci/run installs it where it may"
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # the sandbox needs a user that is not root; the pages are ours
        args = ["--no-sandbox", *arguments]
        browser = playwright.chromium.launch(executable_path=executable, args=args)
        yield browser
        browser.close()
