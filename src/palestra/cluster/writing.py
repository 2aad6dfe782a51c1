"""Writing the folder of a submission: scripts, supervisor, packaged code, and the plan last."""

import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from palestra.cluster.alone import write_plan
from palestra.cluster.bundle import supervisor_zip
from palestra.cluster.configs import ClusterConfig
from palestra.cluster.layout import RunFiles, SubmissionFiles
from palestra.cluster.packaging import How, snapshot
from palestra.cluster.plan import Run, to_json
from palestra.cluster.render import script, submit_script
from palestra.cluster.secrets import check_absent, check_folder_absent
from palestra.errors import ConfigError
from palestra.settings import JobOptions


@dataclass(frozen=True, slots=True)
class Writer:
    """What the texts of a submission are made of. `secrets`: values that stand in none of them."""

    options: JobOptions
    cluster: ClusterConfig
    files: RunFiles
    how: How
    code: Path
    """The folder that is packaged, `how` says in which way."""
    secrets: Collection[str]

    def check(self, run: Run) -> None:
        """Raise ConfigError for what cannot be written, before anything is."""
        self._rendered(run)

    def write(self, run: Run) -> SubmissionFiles:
        """Write it all; the plan last, since it is what others look for."""
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
        """Every text, looked through for secrets."""
        folder = self.files.submission(run.submission)
        texts = {
            folder.script(job.name): script(run, job, self.options, self.cluster)
            for job in run.jobs
        }
        texts[folder.submit_script] = submit_script(run)
        texts[folder.plan] = to_json(run).decode()
        shown = {path.name: text for path, text in texts.items()}
        check_absent(shown, run.secrets, os.environ, self.secrets)
        return texts

    def _package(self, folder: SubmissionFiles, run: Run) -> None:
        """The packaged code is looked through, too: what a file of it holds travels as it is."""
        try:
            snapshot(self.how, self.code, folder.code, but=[self.files.output_dir])
            check_folder_absent(folder.code, run.secrets, os.environ, self.secrets)
        except ConfigError:
            shutil.rmtree(folder.folder)
            raise
