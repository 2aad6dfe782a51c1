"""`palestra dataset`: the flags of the commands that move datasets to and from other machines."""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from palestra.cli.console import guarded
from palestra.cli.options import Configs, Overrides, given, with_configs
from palestra.errors import ConfigError

dataset = typer.Typer(
    help="Datasets: to and from the Hugging Face hub and GitLab's registry.",
    no_args_is_help=True,
)


class Storage(StrEnum):
    """Where datasets are kept."""

    HF = "hf"
    GITLAB = "gitlab"


Where = Annotated[Storage, typer.Option("--storage", help="hf: the Hugging Face hub; gitlab.")]
Input = Annotated[str | None, typer.Option("--input", "-i", help="The JSONL file.")]
Name = Annotated[
    str | None, typer.Option("--dataset-name", help="Case-sensitive; hf: ends the repo's name.")
]
Version = Annotated[str | None, typer.Option("--version", help="gitlab: x.y.z.")]
Artifact = Annotated[str | None, typer.Option("--artifact", help="One file, by its name there.")]
Split = Annotated[str | None, typer.Option("--split", help="hf: train, validation or test.")]
Organization = Annotated[
    str | None, typer.Option("--organization", help="hf: whose repository and collection.")
]
ResourceConfig = Annotated[
    str | None,
    typer.Option("--resource-config", help="hf: the environment's config, which says the domain."),
]
Prefix = Annotated[
    str | None, typer.Option("--prefix", help="hf: begins the repo's name; Nemotron-RL.")
]
Collection = Annotated[
    str | None, typer.Option("--collection", help="hf: the collection's name; with its slug.")
]
CollectionSlug = Annotated[
    str | None, typer.Option("--collection-slug", help="hf: the end of its address.")
]
PullRequest = Annotated[
    bool | None, typer.Option("--create-pr", help="hf: open a pull request, and print its link.")
]
Revision = Annotated[str | None, typer.Option("--revision", help="hf: a branch, tag or commit.")]
Message = Annotated[str | None, typer.Option("--message", "-m", help="hf: of the commit.")]
Description = Annotated[str | None, typer.Option("--description", help="hf: of the commit.")]
Yes = Annotated[bool | None, typer.Option("--yes", "-y", help="Delete without a question.")]
Deadline = Annotated[
    float | None,
    typer.Option("--network-deadline", help="Seconds of network trouble put up with; 120."),
]
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
"""Settings that mean something in one place only."""


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.add_typer(dataset, name="dataset")


def _in_its_place(storage: Storage, settings: dict[str, Any]) -> dict[str, Any]:
    """`settings`, unless some are for the other place. Raises ConfigError that names them."""
    for other, names in ONLY.items():
        strange = sorted(names & settings.keys())
        if other != storage and strange:
            raise ConfigError(
                f"{', '.join(strange)}: only for --storage {other}, and this is {storage}"
            )
    return settings


@dataset.command()
def upload(
    storage: Where = Storage.HF,
    input_file: Input = None,
    name: Name = None,
    version: Version = None,
    organization: Organization = None,
    resource_config: ResourceConfig = None,
    prefix: Prefix = None,
    collection: Collection = None,
    collection_slug: CollectionSlug = None,
    split: Split = None,
    create_pr: PullRequest = None,
    revision: Revision = None,
    message: Message = None,
    description: Description = None,
    delete_from_gitlab: Annotated[
        bool | None,
        typer.Option("--delete-from-gitlab", help="hf: then ask, and delete it there."),
    ] = None,
    yes: Yes = None,
    deadline: Deadline = None,
    configs: Configs = None,
    overrides: Overrides = None,
) -> None:
    """Upload a file; what arrives is compared with it. ng_upload_dataset_to_hf, …_to_gitlab."""
    extra = given(
        input_jsonl_fpath=input_file,
        dataset_name=name,
        version=version,
        hf_organization=organization,
        resource_config_path=resource_config,
        hf_dataset_prefix=prefix,
        hf_collection_name=collection,
        hf_collection_slug=collection_slug,
        split=split,
        create_pr=create_pr,
        revision=revision,
        commit_message=message,
        commit_description=description,
        delete_from_gitlab=delete_from_gitlab,
        yes=yes,
        network_deadline_s=deadline,
    )

    def command() -> int:
        from palestra.cli.sharing import upload_to_gitlab, upload_to_hub

        if yes and not delete_from_gitlab:
            raise ConfigError(
                "yes: answers a question that is not asked",
                hint="it is asked with --delete-from-gitlab",
            )
        run = upload_to_hub if storage is Storage.HF else upload_to_gitlab
        return _call(run, storage, extra, configs, overrides)

    guarded(command)


@dataset.command()
def download(
    storage: Where = Storage.HF,
    repo: Annotated[
        str | None, typer.Option("--repo", help="hf: the repository, organization/name.")
    ] = None,
    artifact: Artifact = None,
    split: Annotated[
        str | None, typer.Option("--split", help="hf: one split as JSONL; default each.")
    ] = None,
    name: Name = None,
    version: Version = None,
    output_dir: Annotated[
        str | None, typer.Option("--output-dir", help="hf: the folder for what is fetched.")
    ] = None,
    output: Annotated[str | None, typer.Option("--output", "-o", help="The one file.")] = None,
    revision: Revision = None,
    deadline: Deadline = None,
    configs: Configs = None,
    overrides: Overrides = None,
) -> None:
    """Download a file or splits, whole or not at all; the same command again goes on."""
    extra = given(
        repo_id=repo,
        artifact_fpath=artifact,
        split=split,
        dataset_name=name,
        version=version,
        output_dirpath=output_dir,
        output_fpath=output,
        revision=revision,
        network_deadline_s=deadline,
    )

    def command() -> int:
        from palestra.cli.sharing import download_from_gitlab, download_from_hub

        if storage is Storage.HF and name is not None:
            raise ConfigError(
                "dataset_name: only for --storage gitlab, and this is hf",
                hint="--repo organization/name says which repository",
            )
        run = download_from_hub if storage is Storage.HF else download_from_gitlab
        return _call(run, storage, extra, configs, overrides)

    guarded(command)


@dataset.command()
def delete(
    name: Annotated[str, typer.Argument(help="The dataset, exactly as it is spelt there.")],
    storage: Where = Storage.GITLAB,
    yes: Yes = None,
    deadline: Deadline = None,
    configs: Configs = None,
    overrides: Overrides = None,
) -> None:
    """Delete a dataset from GitLab's registry, after a question. ng_delete_dataset_from_gitlab."""
    extra = given(dataset_name=name, yes=yes, network_deadline_s=deadline)

    def command() -> int:
        from palestra.cli.sharing import delete_from_gitlab

        if storage is not Storage.GITLAB:
            raise ConfigError(
                "only datasets in GitLab's registry are deleted from here",
                hint="--storage gitlab; a repository of the hub is deleted on its page",
            )
        return _call(delete_from_gitlab, storage, extra, configs, overrides)

    guarded(command)


@dataset.command()
def migrate(
    input_file: Input = None,
    name: Name = None,
    version: Version = None,
    artifact: Artifact = None,
    organization: Organization = None,
    resource_config: ResourceConfig = None,
    prefix: Prefix = None,
    collection: Collection = None,
    collection_slug: CollectionSlug = None,
    split: Split = None,
    create_pr: PullRequest = None,
    revision: Revision = None,
    message: Message = None,
    description: Description = None,
    yes: Yes = None,
    deadline: Deadline = None,
    configs: Configs = None,
    overrides: Overrides = None,
) -> None:
    """From GitLab to the hub: upload, compare, then ask and delete. ng_gitlab_to_hf_dataset."""
    extra = given(
        input_jsonl_fpath=input_file,
        dataset_name=name,
        version=version,
        artifact_fpath=artifact,
        hf_organization=organization,
        resource_config_path=resource_config,
        hf_dataset_prefix=prefix,
        hf_collection_name=collection,
        hf_collection_slug=collection_slug,
        split=split,
        create_pr=create_pr,
        revision=revision,
        commit_message=message,
        commit_description=description,
        yes=yes,
        network_deadline_s=deadline,
    )

    def command() -> int:
        from palestra.cli.sharing import migrate as move

        return move(with_configs(configs, overrides), ng=False, extra=extra)

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
