"""What up- and downloads are told. A combination that cannot be is an error of these models."""

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Split = Literal["train", "validation", "test"]
MAIN = "main"


class HubUpload(BaseModel):
    """`ng_upload_dataset_to_hf`, `palestra dataset upload`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    input_jsonl_fpath: str
    hf_organization: str = Field(min_length=1)
    resource_config_path: str
    """The config of the resources server that the dataset is for: it says the domain."""
    dataset_name: str | None = Field(default=None, min_length=1)
    """Ends the repository's name; default the resources server's name."""
    hf_dataset_prefix: str = Field(default="Nemotron-RL", min_length=1)
    hf_collection_name: str | None = None
    hf_collection_slug: str | None = None
    """The code at the end of the collection's address."""
    split: Split = "train"
    """`train` must have the fields that training reads."""
    create_pr: bool = False
    revision: str | None = None
    """The branch to commit to; default main. With `create_pr` a new branch, which is made."""
    commit_message: str | None = None
    commit_description: str | None = None
    delete_from_gitlab: bool = False

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        if (self.hf_collection_name is None) != (self.hf_collection_slug is None):
            raise ValueError(
                "hf_collection_name and hf_collection_slug name a collection together: give both "
                "or neither"
            )
        return self

    @property
    def new_branch(self) -> str | None:
        """The branch that is made for the pull request; None when it is against main."""
        if self.create_pr and self.revision not in {None, MAIN}:
            return self.revision
        return None


class HubDownload(BaseModel):
    """`ng_download_dataset_from_hf`, `palestra dataset download`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    repo_id: str = Field(min_length=1)
    """`organization/name`"""
    artifact_fpath: str | None = Field(default=None, min_length=1)
    """One file of the repository, fetched as it is."""
    split: str | None = Field(default=None, min_length=1)
    """One split, as JSONL; without it and without an artifact, every split."""
    output_dirpath: str | None = None
    output_fpath: str | None = None
    revision: str | None = None

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        if self.artifact_fpath is not None and self.split is not None:
            raise ValueError(
                "artifact_fpath is one file of the repository and split one of its splits: give "
                "one of them"
            )
        if self.output_dirpath is not None and self.output_fpath is not None:
            raise ValueError("output_dirpath and output_fpath both say where to: give one of them")
        if self.output_dirpath is None and self.output_fpath is None:
            raise ValueError("say where to: output_dirpath (a directory) or output_fpath (a file)")
        if self.output_fpath is not None and self.artifact_fpath is None and self.split is None:
            raise ValueError(
                "output_fpath is one file, and every split is asked for: give split or "
                "artifact_fpath, or output_dirpath instead"
            )
        return self

    def destination(self, name: str) -> Path:
        """Where the file of that name goes."""
        if self.output_fpath is not None:
            return Path(self.output_fpath)
        return Path(self.output_dirpath or ".") / Path(name).name
