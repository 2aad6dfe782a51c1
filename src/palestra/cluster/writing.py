"""Write the folder of a submission: scripts, supervisor, packaged code, and last the plan.

Only one command at a time writes into a folder. The supervisor is a single zip file that Python
runs without further packages.
"""

import contextlib
import io
import os
import shutil
import zipfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from palestra.cluster.configs import ClusterConfig
from palestra.cluster.layout import RunFiles, SubmissionFiles
from palestra.cluster.packaging import How, snapshot
from palestra.cluster.plan import Run, to_json
from palestra.cluster.render import script, submit_script
from palestra.cluster.secrets import check_absent, check_folder_absent
from palestra.errors import ConfigError
from palestra.rollouts import whole_or_absent
from palestra.settings import JobOptions
from palestra.system import lock as lock_file
from palestra.system import remove_empty

HERE: Final = Path(__file__).parent.parent
SYSTEM: Final = ("processes", "files", "locks", "commands", "parents")
"""The modules of `palestra.system` that run on Python 3.8."""
MODULES: Final = (
    *(f"cluster/{name}.py" for name in ("layout", "lease", "plan", "ports", "records", "shard")),
    "cluster/supervisor/*.py",
    *(f"system/{name}.py" for name in SYSTEM),
)
_MAIN: Final = """import sys

from palestra.cluster.supervisor.__main__ import main

raise SystemExit(main(sys.argv[1:]))
"""
_SYSTEM_DOOR: Final = "".join(f"from palestra.system.{name} import *\n" for name in SYSTEM)
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


def supervisor_zip() -> bytes:
    """Return the supervisor as a zip. The same code gives the same bytes."""
    modules = {
        f"palestra/{path.relative_to(HERE)}": path.read_bytes()
        for pattern in MODULES
        for path in sorted(HERE.glob(pattern))
    }
    files = {
        "__main__.py": _MAIN.encode(),
        "palestra/__init__.py": b"",
        "palestra/cluster/__init__.py": b"",
        "palestra/system/__init__.py": _SYSTEM_DOOR.encode(),
        **modules,
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)
    return buffer.getvalue()


@contextlib.contextmanager
def submitting(files: RunFiles) -> Iterator[None]:
    """Lock the folder against other submissions, on file systems that have locks.

    Raises ConfigError: another command holds the lock, or the folder cannot be written.
    """
    lock = files.cluster / "submitting.lock"
    new_folders = [folder for folder in lock.parents if not folder.exists()]
    try:
        files.cluster.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise ConfigError(
            f"the output folder {files.output_dir} cannot be written: {error.strerror}",
            hint="choose another --output-dir",
        ) from error
    try:
        try:
            lock_file(
                descriptor
            )  # else, where there are none, the leases keep one of two from writing
        except BlockingIOError:
            raise ConfigError(
                f"another command is submitting into {files.output_dir} at this moment",
                hint="wait for that command to end; with executor none it ends after all of its "
                "jobs",
            ) from None
        try:
            yield
        except BaseException:
            if files.cluster in new_folders:  # nothing was begun here, so nothing is left here
                lock.unlink(missing_ok=True)
                remove_empty(new_folders)
            raise
    finally:
        os.close(descriptor)


def write_plan(folder: SubmissionFiles, run: Run) -> None:
    """Write the plan, completely or not at all. It comes last, because other commands look for it.

    Raises InputDataError: the plan cannot be written.
    """
    with whole_or_absent(folder.plan) as (file, _):
        file.write(to_json(run))


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes the files of a submission. `secrets`: values that must not appear in any file."""

    options: JobOptions
    cluster: ClusterConfig
    files: RunFiles
    how: How
    code: Path
    """The folder whose code is packaged. `how`: the way to package it."""
    secrets: Collection[str]

    def check(self, run: Run) -> None:
        """Render all files without writing them. Raises ConfigError: one of them cannot be written."""
        self._rendered(run)

    def write(self, run: Run) -> SubmissionFiles:
        """Write all files. The plan comes last, because other commands look for it."""
        folder = self.files.submission(run.submission)
        texts = self._rendered(run)
        folder.folder.mkdir(parents=True)  # of two that come at once, one fails here
        self._package(folder, run)
        folder.supervisor.write_bytes(supervisor_zip())
        Path(run.log_dir).mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            if path != folder.plan:
                path.write_text(text)
                path.chmod(0o755)
        write_plan(folder, run)
        return folder

    def _rendered(self, run: Run) -> dict[Path, str]:
        """Return the text of every file. Raises ConfigError: a text contains a secret."""
        folder = self.files.submission(run.submission)
        texts = {
            folder.script(job.name): script(run, job, self.options, self.cluster)
            for job in run.jobs
        }
        texts[folder.submit_script] = submit_script(run)
        texts[folder.plan] = to_json(run).decode()
        text_of_file = {path.name: text for path, text in texts.items()}
        check_absent(text_of_file, run.secrets, os.environ, self.secrets)
        return texts

    def _package(self, folder: SubmissionFiles, run: Run) -> None:
        """Copy the packaged code. Raises ConfigError: a file of it contains a secret."""
        try:
            snapshot(self.how, self.code, folder.code, but=[self.files.output_dir])
            check_folder_absent(folder.code, run.secrets, os.environ, self.secrets)
        except ConfigError:
            shutil.rmtree(folder.folder)
            raise
