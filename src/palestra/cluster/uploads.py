"""What a submission from a laptop takes along to the cluster: code, named files, the cluster's file.

It is one archive, unpacked on the cluster into a folder that is named by the archive's digest. So the
same files are sent once, and running jobs never see other ones.
"""

import hashlib
import io
import secrets
import shlex
import shutil
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from palestra.cluster.configs import ClusterConfig
from palestra.cluster.login_node import NOT_FOUND, LoginNode
from palestra.cluster.packaging import COMMIT_FILE, How, commit_of, snapshot
from palestra.errors import ConfigError, RunFailed

CLUSTER_FILE: Final = "cluster.yaml"
CODE: Final = "code"
DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class Upload:
    """An archive for the cluster. `name`: the digest of its content."""

    name: str
    archive: bytes


def pack(how: How, folder: Path, named_files: Sequence[str], cluster: ClusterConfig) -> Upload:
    """Pack the code of `folder`, the named files below it, and the cluster's file without `ssh`.

    Files that are named by an absolute path, or are not here, belong to the cluster. Raises
    ConfigError: the code is too large, or has no commit.
    """
    with tempfile.TemporaryDirectory(prefix="palestra-") as aside:
        code = Path(aside) / CODE
        snapshot(how, folder, code)
        code.mkdir(exist_ok=True)
        for name in named_files:
            _add(folder, name, code)
        if how == "git":
            (code / COMMIT_FILE).write_text(commit_of(folder))
        tree = cluster.model_dump(mode="json", exclude_unset=True, exclude={"ssh", "job_dir"})
        (Path(aside) / CLUSTER_FILE).write_text(yaml.safe_dump(tree))
        archive = _archive(Path(aside))
    return Upload(hashlib.sha256(archive).hexdigest()[:DIGITS], archive)


def _add(folder: Path, name: str, code: Path) -> None:
    source = folder / name
    if Path(name).is_absolute() or not source.is_file():
        return
    target = (code / name).resolve()
    if not target.is_relative_to(code.resolve()):
        raise ConfigError(
            f"{name} is outside {folder}, so it cannot be sent along",
            hint="start the command in a folder that holds it, or give the path that it has on the "
            "cluster",
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _archive(folder: Path) -> bytes:
    """Return the folder as a tar. Equal files give equal bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, path.relative_to(folder), recursive=False, filter=_without_owner)
    return buffer.getvalue()


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    return member


def send(upload: Upload, node: LoginNode, job_dir: str, folder: str) -> None:
    """Unpack an archive into `folder` on the cluster, unless it is there.

    Two commands may send the same archive at once: each unpacks it into a folder of its own, and
    the first one stays. Raises RunFailed: it cannot be written there.
    """
    part = shlex.quote(f"{folder}.part-{secrets.token_hex(4)}")
    target = shlex.quote(folder)
    script = (
        f"if [ -d {target} ]; then cat > /dev/null; exit 0; fi; "
        f"mkdir -p {part} && tar -xf - -C {part} && {{ mv -T {part} {target} || [ -d {target} ]; }}; "
        f"code=$?; rm -rf {part}; exit $code"
    )
    finished = node.run(script, data=upload.archive)
    if finished.code:
        raise RunFailed(
            f"{node.settings.host}: the files cannot be written below {job_dir}: "
            f"{finished.complaint or f'exit code {finished.code}'}",
            hint="job_dir of the cluster's file is a folder of yours on the cluster",
        )


def version_there(node: LoginNode) -> str:
    """Return the version of Palestra on the login node.

    Raises ConfigError: it is not there.
    """
    words = shlex.split(node.settings.palestra)
    finished = node.run(f"{shlex.join(words)} --version")
    if finished.code:
        missing = finished.code == NOT_FOUND or "No module named" in finished.complaint
        what = "is not there" if missing else (finished.complaint.splitlines() or ["fails"])[-1]
        raise ConfigError(
            f"{node.settings.host}: the program {' '.join(words)} {what}",
            hint="install Palestra on the cluster, and name the program as `palestra` below `ssh` in "
            "the cluster's file",
        )
    return finished.text.splitlines()[0] if finished.text else ""
