"""What the commands about GitLab's registry are told."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from palestra.config import flag
from palestra.errors import ConfigError

_WHERE: Final = {
    "mlflow_tracking_uri": (
        "MLFLOW_TRACKING_URI",
        "https://<gitlab>/api/v4/projects/<project id>/ml/mlflow",
    ),
    "mlflow_tracking_token": (
        "MLFLOW_TRACKING_TOKEN",
        "<an access token with the api scope>",
    ),
}


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


class GitlabUpload(BaseModel):
    """`ng_upload_dataset_to_gitlab`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    dataset_name: Name = Field(description="Case-sensitive.")
    version: Version = Field(description="gitlab: x.y.z.")
    input_jsonl_fpath: Annotated[str, flag("--input", "-i")] = Field(description="The JSONL file.")


class GitlabDownload(BaseModel):
    """`ng_download_dataset_from_gitlab`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    dataset_name: Name = Field(description="Case-sensitive.")
    version: Version = Field(description="gitlab: x.y.z.")
    artifact_fpath: Annotated[str, AfterValidator(_is_inside), flag("--artifact")] = Field(
        description="One file, by its name there."
    )
    output_fpath: Annotated[str, flag("--output", "-o")] = Field(description="The one file.")


class GitlabDelete(BaseModel):
    """`ng_delete_dataset_from_gitlab`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    dataset_name: Name


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    """Where the registry is, and what it is asked with."""

    uri: str
    token: str = field(repr=False)

    @classmethod
    def of(cls, tree: Mapping[str, Any], environ: Mapping[str, str]) -> Self:
        """From the configuration, else from the environment.

        Raises ConfigError that names all that is missing, and where to put it.
        """
        found = {
            name: str(tree.get(name) or environ.get(variable) or "")
            for name, (variable, _) in _WHERE.items()
        }
        missing = [name for name, value in found.items() if not value]
        if missing:
            lines = "; ".join(
                f"put {name}: {_WHERE[name][1]} into env.yaml, or set {_WHERE[name][0]}"
                for name in missing
            )
            are = "is" if len(missing) == 1 else "are"
            raise ConfigError(f"{' and '.join(missing)} {are} not set", hint=lines)
        address = cls(found["mlflow_tracking_uri"].rstrip("/"), found["mlflow_tracking_token"])
        parts = urlsplit(address.uri)
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            raise ConfigError(
                "mlflow_tracking_uri is not an address that begins with http:// or https://",
                hint=f"for GitLab: {_WHERE['mlflow_tracking_uri'][1]}",
            )
        return address
