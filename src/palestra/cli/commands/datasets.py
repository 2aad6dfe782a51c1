"""`palestra dataset`: the flags of the commands that upload, download, delete and migrate datasets."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from palestra.cli.console import guarded
from palestra.cli.flags import Configs, Flags, Overrides, settings_command, with_configs
from palestra.errors import ConfigError

dataset = typer.Typer(
    help="Datasets of the Hugging Face hub and GitLab's registry.",
    no_args_is_help=True,
)


class Storage(StrEnum):
    """The place where a dataset is stored: the Hugging Face hub, or GitLab's registry."""

    HF = "hf"
    GITLAB = "gitlab"


Where = Annotated[Storage, typer.Option("--storage", help="hf: the Hugging Face hub; gitlab.")]
ONLY: dict[Storage, frozenset[str]] = {
    Storage.HF: frozenset(
        {
            "hf_organization", "resource_config_path", "hf_dataset_prefix", "hf_collection_name",
            "hf_collection_slug", "split", "create_pr", "revision", "commit_message",
            "commit_description", "delete_from_gitlab", "repo_id", "output_dirpath",
        }
    ),
    Storage.GITLAB: frozenset({"version"}),
}  # fmt: skip
"""The settings that are valid for one storage only."""


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.add_typer(dataset, name="dataset")


def _in_its_place(storage: Storage, settings: dict[str, Any]) -> dict[str, Any]:
    """Return `settings`. Raises ConfigError, with their names: some are only for the other storage."""
    for storage_name, names in ONLY.items():
        strange = sorted(names & settings.keys())
        if storage_name != storage and strange:
            raise _only_in(storage_name, strange)
    return settings


def _only_in(storage: Storage, names: Sequence[str], *, hint: str = "") -> ConfigError:
    """Return the error about settings that are only for this storage, by their names."""
    from palestra.settings import GitlabUpload, HubDownload, HubUpload, InvalidSettings, flags_of

    models = (HubUpload, HubDownload, GitlabUpload)
    flags = {name: flag for model in models for name in names for flag in flags_of(model, name)[:1]}
    return InvalidSettings.about(
        f"{', '.join(f'{name} ({flags[name]})' for name in names)}: only for --storage {storage}",
        hint=hint,
    )


@settings_command(dataset, "HubUpload", "GitlabUpload", "NetworkSettings", required=False)
def upload(
    flags: Flags,
    storage: Where = Storage.HF,
    configs: Configs = None,
    overrides: Overrides = None,
) -> None:
    """Upload a file, and compare it with the stored copy.

    Same as ng_upload_dataset_to_hf and ng_upload_dataset_to_gitlab.
    """

    def command() -> int:
        from palestra.cli.sharing import upload_to_gitlab, upload_to_hub

        if flags.get("yes") and not flags.get("delete_from_gitlab"):
            raise ConfigError(
                "--yes has no effect: the command asks no question",
                hint="the command only asks a question with --delete-from-gitlab",
            )
        run = upload_to_hub if storage is Storage.HF else upload_to_gitlab
        return _call(run, storage, flags, configs, overrides)

    guarded(command)


@settings_command(
    dataset,
    "HubDownload",
    "GitlabDownload",
    "NetworkSettings",
    required=False,
    without=("yes",),
)
def download(
    flags: Flags,
    storage: Where = Storage.HF,
    configs: Configs = None,
    overrides: Overrides = None,
) -> None:
    """Download a file or splits, complete or not at all. Run the same command again to continue."""

    def command() -> int:
        from palestra.cli.sharing import download_from_gitlab, download_from_hub

        if storage is Storage.HF and "dataset_name" in flags:
            raise _only_in(
                Storage.GITLAB,
                ["dataset_name"],
                hint="name the repository with --repo organization/name",
            )
        run = download_from_hub if storage is Storage.HF else download_from_gitlab
        return _call(run, storage, flags, configs, overrides)

    guarded(command)


@settings_command(dataset, "NetworkSettings")
def delete(
    flags: Flags,
    name: Annotated[str, typer.Argument(help="The dataset, exactly as it is spelt there.")],
    storage: Where = Storage.GITLAB,
    configs: Configs = None,
    overrides: Overrides = None,
) -> None:
    """Delete a dataset from GitLab's registry; asks first. Same as ng_delete_dataset_from_gitlab."""
    flags["dataset_name"] = name

    def command() -> int:
        from palestra.cli.sharing import delete_from_gitlab

        if storage is not Storage.GITLAB:
            raise ConfigError(
                "this command deletes only datasets in GitLab's registry",
                hint="pass --storage gitlab; delete a repository of the Hugging Face hub on its "
                "web page",
            )
        return _call(delete_from_gitlab, storage, flags, configs, overrides)

    guarded(command)


@settings_command(
    dataset,
    "HubUpload",
    "GitlabDownload",
    "NetworkSettings",
    required=False,
    without=("output_fpath", "delete_from_gitlab"),
)
def migrate(flags: Flags, configs: Configs = None, overrides: Overrides = None) -> None:
    """Move a dataset from GitLab to the hub. Uploads, compares, then asks and deletes.

    Same as ng_gitlab_to_hf_dataset.
    """

    def command() -> int:
        from palestra.cli.sharing import migrate as move

        return move(with_configs(configs, overrides), ng=False, extra=flags)

    guarded(command)


def _call(
    run: Callable[..., int],
    storage: Storage,
    extra: dict[str, Any],
    configs: list[str] | None,
    overrides: list[str] | None,
) -> int:
    settings = _in_its_place(storage, extra)
    return run(with_configs(configs, overrides), ng=False, extra=settings)
