"""Settings of the commands about GitLab's registry of datasets."""

from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, Field

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
        raise ValueError("it is a path inside of the version, such as train.jsonl")
    return value


Name = Annotated[str, Field(min_length=1)]
"""A dataset's name in the registry; case-sensitive."""
Version = Annotated[str, AfterValidator(_is_a_version)]


class GitlabUpload(Settings):
    """`ng_upload_dataset_to_gitlab`."""

    dataset_name: Name = Field(description="Case-sensitive.")
    version: Version = Field(description="gitlab: x.y.z.")
    input_jsonl_fpath: Annotated[str, flag("--input", "-i")] = Field(description="The JSONL file.")


class GitlabDownload(Settings):
    """`ng_download_dataset_from_gitlab`."""

    dataset_name: Name = Field(description="Case-sensitive.")
    version: Version = Field(description="gitlab: x.y.z.")
    artifact_fpath: Annotated[str, AfterValidator(_is_inside), flag("--artifact")] = Field(
        description="One file, by its name there."
    )
    output_fpath: Annotated[str, flag("--output", "-o")] = Field(description="The one file.")


class GitlabDelete(Settings):
    """`ng_delete_dataset_from_gitlab`."""

    dataset_name: Name
