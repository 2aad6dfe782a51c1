"""`dataset upload`, `download`, `delete`, `migrate`, and the equal `ng_*` commands."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from palestra.cli.console import masking, notice, say, warn_all
from palestra.cli.transfers import patience_of, transfers
from palestra.config import ConfigTree, Redactor
from palestra.datasets import (
    Catalogue,
    Outgoing,
    RegistryAddress,
    TransferPatience,
    UploadProgress,
    UploadTarget,
    check_rows,
    credentials_in,
    download_from_registry,
    open_hub,
    open_registry,
    outgoing,
    target_of,
    upload_to_registry,
)
from palestra.errors import ConfigError, require_extra
from palestra.settings import (
    GitlabDelete,
    GitlabDownload,
    GitlabUpload,
    HubDownload,
    HubUpload,
    InvalidSettings,
    NetworkSettings,
    args_from,
    existing_path,
    load,
)
from palestra.system import shown

YES: Final = frozenset({"y", "yes"})


@dataclass(frozen=True)
class _Run:
    """The settings and callbacks of one command."""

    tree: ConfigTree = field(repr=False)
    patience: TransferPatience
    progress: UploadProgress
    say: Callable[[str], None]
    """Prints a line, with secrets masked."""
    yes: bool


Command = Callable[[_Run], int]


def upload_to_hub(overrides: list[str], *, ng: bool, extra: ConfigTree | None = None) -> int:
    """Run `ng_upload_dataset_to_hf`; returns its exit code."""
    return _run(_upload_to_hub, overrides, ng=ng, extra=extra, hub=True)


def download_from_hub(overrides: list[str], *, ng: bool, extra: ConfigTree | None = None) -> int:
    """Run `ng_download_dataset_from_hf`; returns its exit code."""
    return _run(_download_from_hub, overrides, ng=ng, extra=extra, hub=True)


def upload_to_gitlab(overrides: list[str], *, ng: bool, extra: ConfigTree | None = None) -> int:
    """Run `ng_upload_dataset_to_gitlab`; returns its exit code."""
    return _run(_upload_to_gitlab, overrides, ng=ng, extra=extra)


def download_from_gitlab(overrides: list[str], *, ng: bool, extra: ConfigTree | None = None) -> int:
    """Run `ng_download_dataset_from_gitlab`; returns its exit code."""
    return _run(_download_from_gitlab, overrides, ng=ng, extra=extra)


def delete_from_gitlab(overrides: list[str], *, ng: bool, extra: ConfigTree | None = None) -> int:
    """Run `ng_delete_dataset_from_gitlab`; returns its exit code."""
    return _run(_delete_from_gitlab, overrides, ng=ng, extra=extra)


def migrate(overrides: list[str], *, ng: bool, extra: ConfigTree | None = None) -> int:
    """Run `ng_gitlab_to_hf_dataset`; returns its exit code."""
    return _run(_migrate, overrides, ng=ng, extra=extra, hub=True)


def _run(
    command: Command, overrides: list[str], *, ng: bool, extra: ConfigTree | None, hub: bool = False
) -> int:
    config = load(overrides, ng=ng, extra=extra, require_all=False, required=())
    secrets = config.secrets | credentials_in(os.environ)
    if hub:
        require_extra("huggingface_hub", extra="hub", what="the Hugging Face hub")
    with masking(secrets):
        warn_all(config.warnings)
        network = args_from(NetworkSettings, config.tree)
        mask = Redactor(secrets)
        with transfers() as progress:
            return command(
                _Run(
                    config.tree,
                    patience_of(config.tree),
                    progress,
                    lambda text: say(mask(text)),
                    network.yes,
                )
            )


# The hub


def _upload_to_hub(run: _Run) -> int:
    settings = args_from(HubUpload, run.tree)
    file, target = _checked(settings)
    if not settings.delete_from_gitlab:
        return _send_to_hub(file, target, settings, run)
    address = RegistryAddress.of(run.tree, os.environ)
    with _catalogue(address, run) as catalogue:
        catalogue.require(target.dataset_name)
        _refuse_to_lose(catalogue.versions_of(target.dataset_name)[1:], target.dataset_name, run)
        _send_to_hub(file, target, settings, run)
        return _delete(catalogue, target.dataset_name, run)


def _checked(settings: HubUpload) -> tuple[Outgoing, UploadTarget]:
    """Check all that can be checked on this machine before anything is sent; return file and
    target.
    """
    path = existing_path(settings.input_jsonl_fpath)
    file = outgoing(path)
    if settings.split == "train":
        warn_all(check_rows(path))
    return file, target_of(settings)


def _send_to_hub(file: Outgoing, target: UploadTarget, settings: HubUpload, run: _Run) -> int:
    hub = open_hub(run.tree, os.environ, run.patience)
    hub.require_token()
    uploaded = hub.upload(file, target, settings, run.progress)
    if uploaded.unchanged:
        run.say(
            f"{uploaded.repo_id} already has {uploaded.path_in_repo} with the same content: "
            f"{uploaded.url}"
        )
    elif uploaded.pull_request:
        run.say(f"Pull Request created: {uploaded.pull_request}")
    else:
        run.say(f"Dataset upload successful: {uploaded.url}")
    run.say(f"verified: sha256 {file.sha256}, {file.size_bytes:,} bytes")
    if uploaded.collection:
        run.say(f"in the collection {uploaded.collection}")
    return 0


def _download_from_hub(run: _Run) -> int:
    settings = args_from(HubDownload, run.tree)
    hub = open_hub(run.tree, os.environ, run.patience)
    for path in hub.download(settings, run.progress):
        run.say(f"wrote {shown(path)}")
    return 0


# GitLab's registry


def _upload_to_gitlab(run: _Run) -> int:
    settings = args_from(GitlabUpload, run.tree)
    address = RegistryAddress.of(run.tree, os.environ)
    file = outgoing(existing_path(settings.input_jsonl_fpath))
    with open_registry(address, run.patience) as registry:
        uploaded = upload_to_registry(file, settings, registry, run.progress)
    already = "was there already" if uploaded.unchanged else "Dataset upload successful"
    run.say(f"{already}: {uploaded.artifact} in version {uploaded.version} of {uploaded.name!r}")
    run.say(f"verified: sha256 {file.sha256}, {file.size_bytes:,} bytes")
    return 0


def _download_from_gitlab(run: _Run) -> int:
    settings = args_from(GitlabDownload, run.tree)
    address = RegistryAddress.of(run.tree, os.environ)
    with open_registry(address, run.patience) as registry:
        verified = download_from_registry(settings, registry, run.progress)
    run.say(f"wrote {shown(Path(settings.output_fpath))}")
    if not verified:
        notice("the registry has no digest of this file, so only the size was compared")
    return 0


def _delete_from_gitlab(run: _Run) -> int:
    settings = args_from(GitlabDelete, run.tree)
    with _catalogue(RegistryAddress.of(run.tree, os.environ), run) as catalogue:
        catalogue.require(settings.dataset_name)
        return _delete(catalogue, settings.dataset_name, run)


def _migrate(run: _Run) -> int:
    """Upload a local file, or a file of the registry, to the hub; then ask whether to delete the
    dataset.
    """
    if "delete_from_gitlab" in run.tree:
        raise ConfigError(
            "delete_from_gitlab: not a setting of this command, which always asks before it "
            "deletes",
            hint="leave it out; the question is answered by --yes",
        )
    address = RegistryAddress.of(run.tree, os.environ)
    with tempfile.TemporaryDirectory(prefix="palestra-migrate-") as folder:
        stored = _stored_file(run.tree, Path(folder))
        settings = args_from(HubUpload, {**run.tree, **_input_of(stored)})
        target = target_of(settings)
        with _catalogue(address, run) as catalogue:
            catalogue.require(target.dataset_name)
            versions = catalogue.versions_of(target.dataset_name)
            others = [v for v in versions if v != stored.version] if stored else versions[1:]
            _refuse_to_lose(others, target.dataset_name, run)
            if stored is not None:
                _fetch(stored, address, run)
            file, target = _checked(settings)
            _send_to_hub(file, target, settings, run)
            return _delete(catalogue, target.dataset_name, run)


def _stored_file(tree: ConfigTree, folder: Path) -> GitlabDownload | None:
    """Return the download settings of a file in the registry; None when the file is on this
    machine.
    """
    if tree.get("input_jsonl_fpath") is not None:
        if tree.get("artifact_fpath") is not None or tree.get("version") is not None:
            raise InvalidSettings.about(
                "input_jsonl_fpath (--input) names a local file, version (--version) and "
                "artifact_fpath (--artifact) a file in the registry: pass one or the other"
            )
        return None
    if tree.get("artifact_fpath") is None and tree.get("version") is None:
        raise InvalidSettings.about(
            "the file to upload is missing: pass input_jsonl_fpath (--input) for a local file, or "
            "version (--version) and artifact_fpath (--artifact) for a file in the registry"
        )
    name = Path(str(tree.get("artifact_fpath") or "")).name
    return args_from(GitlabDownload, {**tree, "output_fpath": str(folder / name)})


def _input_of(stored: GitlabDownload | None) -> dict[str, str]:
    return {} if stored is None else {"input_jsonl_fpath": stored.output_fpath}


def _fetch(stored: GitlabDownload, address: RegistryAddress, run: _Run) -> None:
    with open_registry(address, run.patience) as registry:
        download_from_registry(stored, registry, run.progress)


@contextlib.contextmanager
def _catalogue(address: RegistryAddress, run: _Run) -> Iterator[Catalogue]:
    with open_registry(address, run.patience) as registry:
        yield Catalogue(registry)


def _refuse_to_lose(others: Sequence[str], name: str, run: _Run) -> None:
    """Raise ConfigError when `--yes` would delete other versions, which are not uploaded, without a
    question.
    """
    if others and run.yes:
        raise InvalidSettings.about(
            f"yes (--yes) is not accepted, as deleting {name!r} from the registry would delete other "
            "versions too, not only the uploaded one",
            hint=f"leave --yes out to be asked; `palestra dataset delete {name}` deletes all "
            "versions",
        )


def _delete(catalogue: Catalogue, name: str, run: _Run) -> int:
    """Ask, unless `--yes` is set, and delete the dataset. Any answer but yes means no."""
    versions = catalogue.versions_of(name)
    if len(versions) > 1 and not run.yes:
        run.say(f"{name!r} has the versions {', '.join(versions)}: all of them would be deleted")
    question = (
        f"Found model {name!r} in the registry. Are you sure you want to delete it from Gitlab? "
        "[y/N]: "
    )
    if not run.yes and _answer(question).strip().lower() not in YES:
        run.say(f"Skipped: {name!r} stays in the registry")
        return 0
    catalogue.delete(name)
    run.say(f"Deleted {name!r} from the registry")
    return 0


def _answer(question: str) -> str:
    sys.stdout.write(question)
    sys.stdout.flush()
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        say()
    return answer
