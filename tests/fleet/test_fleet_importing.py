"""How long imports may take, and what is said of one that takes longer."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from palestra.fleet import load_module
from palestra.fleet.importing import (
    IMPORTS,
    LONGER,
    OF_START,
    START_TIMEOUT_S,
    AuthorImport,
    import_too_long,
    starting_within,
    workers_limit_s,
)
from palestra.server.authors_errors import AuthorsPlace


@pytest.mark.slow
@pytest.mark.parametrize("package", ["palestra.server", "palestra.fleet"])
def test_what_serves_imports_no_ray(package: str) -> None:
    code = f"import sys, {package}; print('ray' in sys.modules)"

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False
    )

    assert done.stdout == "False\n", done.stderr


def test_workers_have_a_share_of_what_the_import_in_the_server_left() -> None:
    with starting_within(60):
        time.sleep(0.2)

        assert 0 < workers_limit_s() <= OF_START * (60 - 0.2)


def test_workers_that_start_outside_of_a_servers_start_have_a_share_of_all() -> None:
    assert workers_limit_s() == OF_START * START_TIMEOUT_S


@pytest.mark.parametrize("longer", [LONGER, "--timeout=<seconds>"])
def test_an_import_out_of_time_names_what_gives_it_longer(longer: str) -> None:
    with starting_within(1, longer):
        error = import_too_long(AuthorImport.of(Path("x.py")), AuthorsPlace())

    assert longer in error.hint


SLOW = """
import time

until = time.monotonic() + 4
while time.monotonic() < until:
    time.sleep(0.05)
"""


@pytest.mark.slow
def test_a_file_that_waits_for_another_ones_import_names_that_one(tmp_path: Path) -> None:
    slow, other = tmp_path / "slow.py", tmp_path / "other.py"
    slow.write_text(SLOW)
    other.write_text("")
    threads = [threading.Thread(target=load_module, args=(path,)) for path in (slow, other)]
    threads[0].start()
    time.sleep(0.5)
    threads[1].start()
    time.sleep(0.5)

    own, waiting = IMPORTS.unfinished(slow, 1), IMPORTS.unfinished(other, 1)
    for thread in threads:
        thread.join()

    assert own is not None
    assert waiting is not None
    assert own.file == waiting.file == str(slow)
    assert (str(other) in own.message, str(other) in waiting.message) == (False, True)
    assert IMPORTS.unfinished(other, 1) is None
