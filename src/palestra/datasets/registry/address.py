"""Where the registry is, and the token it is asked with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import urlsplit

from palestra.config import ConfigTree
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


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    """Where the registry is, and what it is asked with."""

    uri: str
    token: str = field(repr=False)

    @classmethod
    def of(cls, tree: ConfigTree, environ: Mapping[str, str]) -> Self:
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
