"""Settings of uploads to and downloads from the Hugging Face hub and GitLab's registry. The models
reject settings that contradict each other.
"""

from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from palestra.config import flag
from palestra.settings.base import Settings


def _is_a_version(value: str) -> str:
    parts = value.split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdecimal() for part in parts):
        raise ValueError("a version has the form x.y.z, such as 0.0.1")
    return value


def _is_inside(value: str) -> str:
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError(
            "must be the path of a file in that version of the dataset, such as train.jsonl"
        )
    return value


Name = Annotated[str, Field(min_length=1)]
"""The name of a dataset in the registry. Case-sensitive."""
Version = Annotated[str, AfterValidator(_is_a_version)]


class GitlabUpload(Settings):
    """The settings of `ng_upload_dataset_to_gitlab`."""

    dataset_name: Name = Field(description="Case-sensitive.")
    version: Version = Field(description="gitlab: x.y.z.")
    input_jsonl_fpath: Annotated[str, flag("--input", "-i")] = Field(description="The JSONL file.")


class GitlabDownload(Settings):
    """The settings of `ng_download_dataset_from_gitlab`."""

    dataset_name: Name = Field(description="Case-sensitive.")
    version: Version = Field(description="gitlab: x.y.z.")
    artifact_fpath: Annotated[str, AfterValidator(_is_inside), flag("--artifact")] = Field(
        description="One file, by its name there."
    )
    output_fpath: Annotated[str, flag("--output", "-o")] = Field(description="The one file.")


class GitlabDelete(Settings):
    """The settings of `ng_delete_dataset_from_gitlab`."""

    dataset_name: Name


Split = Literal["train", "validation", "test"]
MAIN = "main"


class HubUpload(Settings):
    """The settings of `ng_upload_dataset_to_hf` and `palestra dataset upload`."""

    input_jsonl_fpath: Annotated[str, flag("--input", "-i")] = Field(description="The JSONL file.")
    hf_organization: Annotated[str, flag("--organization")] = Field(
        min_length=1, description="hf: whose repository and collection."
    )
    resource_config_path: Annotated[str, flag("--resource-config")] = Field(
        description="hf: the environment's config, which says the domain."
    )
    dataset_name: str | None = Field(
        default=None, min_length=1, description="Case-sensitive; hf: ends the repo's name."
    )
    hf_dataset_prefix: Annotated[str, flag("--prefix")] = Field(
        default="Nemotron-RL", min_length=1, description="hf: begins the repo's name."
    )
    hf_collection_name: Annotated[str | None, flag("--collection")] = Field(
        default=None, description="hf: the collection's name; with its slug."
    )
    hf_collection_slug: Annotated[str | None, flag("--collection-slug")] = Field(
        default=None, description="hf: the end of its address."
    )
    split: Split = Field(
        default="train",
        description="hf: train, validation or test; train must have the fields that training reads.",
    )
    create_pr: bool = Field(
        default=False, description="hf: open a pull request, and print its link."
    )
    revision: str | None = Field(default=None, description="hf: a branch, tag or commit.")
    commit_message: Annotated[str | None, flag("--message", "-m")] = Field(
        default=None, description="hf: of the commit."
    )
    commit_description: Annotated[str | None, flag("--description")] = Field(
        default=None, description="hf: of the commit."
    )
    delete_from_gitlab: bool = Field(
        default=False, description="hf: then ask, and delete it there."
    )

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        if (self.hf_collection_name is None) != (self.hf_collection_slug is None):
            raise ValueError(
                "hf_collection_name (--collection) and hf_collection_slug (--collection-slug) name "
                "a collection together: give both or neither"
            )
        return self

    @property
    def new_branch(self) -> str | None:
        """The branch to create for the pull request; None without one, or when the pull request is
        against `main`.
        """
        if self.create_pr and self.revision not in {None, MAIN}:
            return self.revision
        return None


class HubDownload(Settings):
    """The settings of `ng_download_dataset_from_hf` and `palestra dataset download`."""

    repo_id: Annotated[str, flag("--repo")] = Field(
        min_length=1, description="hf: the repository, organization/name."
    )
    artifact_fpath: Annotated[str | None, flag("--artifact")] = Field(
        default=None, min_length=1, description="One file, by its name there."
    )
    split: str | None = Field(
        default=None, min_length=1, description="hf: one split as JSONL; default each."
    )
    output_dirpath: Annotated[str | None, flag("--output-dir")] = Field(
        default=None, description="hf: the folder for what is fetched."
    )
    output_fpath: Annotated[str | None, flag("--output", "-o")] = Field(
        default=None, description="The one file."
    )
    revision: str | None = Field(default=None, description="hf: a branch, tag or commit.")

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        if self.artifact_fpath is not None and self.split is not None:
            raise ValueError(
                "artifact_fpath (--artifact) is one file of the repository and split (--split) "
                "one of its splits: give one of them"
            )
        if self.output_dirpath is not None and self.output_fpath is not None:
            raise ValueError(
                "output_dirpath (--output-dir) and output_fpath (--output) both say where to: "
                "give one of them"
            )
        if self.output_dirpath is None and self.output_fpath is None:
            raise ValueError(
                "say where to: output_dirpath (--output-dir) for a directory, or output_fpath (--output) "
                "for a file"
            )
        if self.output_fpath is not None and self.artifact_fpath is None and self.split is None:
            raise ValueError(
                "output_fpath (--output) is one file, and every split is asked for: give "
                "split (--split) or artifact_fpath (--artifact), or output_dirpath (--output-dir) instead"
            )
        return self

    def destination(self, name: str) -> Path:
        """Return the local path for the file `name`."""
        if self.output_fpath is not None:
            return Path(self.output_fpath)
        return Path(self.output_dirpath or ".") / Path(name).name
