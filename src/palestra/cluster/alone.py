"""One submission at a time into a folder, and its plan whole or absent."""

import contextlib
import os
from collections.abc import Iterator

from palestra.cluster.layout import RunFiles, SubmissionFiles
from palestra.cluster.plan import Run, to_json
from palestra.errors import ConfigError
from palestra.rollouts.materialize import whole_or_absent
from palestra.system import lock as lock_file
from palestra.system import remove_empty


@contextlib.contextmanager
def submitting(files: RunFiles) -> Iterator[None]:
    """Keep others from submitting into the folder meanwhile, on file systems that have locks.

    Raises ConfigError when somebody else does, and for a folder that cannot be written.
    """
    lock = files.cluster / "submitting.lock"
    made = [folder for folder in lock.parents if not folder.exists()]
    try:
        files.cluster.mkdir(parents=True, exist_ok=True)
        held = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise ConfigError(
            f"the output folder {files.output_dir} cannot be written: {error.strerror}",
            hint="choose another --output-dir",
        ) from error
    try:
        try:
            lock_file(held)  # else, where there are none, the leases keep one of two from writing
        except BlockingIOError:
            raise ConfigError(
                f"another command is submitting into {files.output_dir} at this moment",
                hint="wait for it; with executor none that is until all of its jobs have ended",
            ) from None
        try:
            yield
        except BaseException:
            if files.cluster in made:  # nothing was begun here, so nothing is left here
                lock.unlink(missing_ok=True)
                remove_empty(made)
            raise
    finally:
        os.close(held)


def write_plan(folder: SubmissionFiles, run: Run) -> None:
    """The plan, which others look for: last of a submission's files, and never half-written.

    Raises InputDataError when it cannot be written.
    """
    with whole_or_absent(folder.plan) as (file, _):
        file.write(to_json(run))
