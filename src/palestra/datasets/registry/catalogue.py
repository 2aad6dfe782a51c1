"""Names and versions of datasets in the registry."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from palestra.datasets.registry.access import Registry
from palestra.errors import ConfigError, RunFailed

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion, RegisteredModel
    from mlflow.exceptions import MlflowException

VERSION_TAG: Final = "gitlab.version"
"""The tag with the version's name. GitLab reads the version from it. A plain MLflow server numbers
versions itself, so Palestra reads the tag there."""
DIGEST_TAG: Final = "palestra.sha256"
EXPERIMENT: Final = "palestra datasets"
"""The MLflow experiment for uploads to a plain MLflow server: files belong to a run there, and each
run needs an experiment."""


@dataclass(frozen=True, slots=True)
class DatasetVersion:
    """A version of a dataset in the registry."""

    name: str
    version: str
    """The version, in the form `x.y.z`."""
    files_uri: str
    """The address of the version's files."""
    digest: str | None
    """The recorded digest, in the form `<sha256> <file name>`; an upload writes it as a tag. None:
    not recorded."""

    def sha256_of(self, artifact: str) -> str | None:
        """Return the expected sha256 of a file; None when it is not recorded."""
        sha256, _, name = (self.digest or "").partition(" ")
        return sha256 if name == artifact and len(sha256) == 64 else None


class Catalogue:
    """Lists, finds, creates and deletes datasets and versions in the registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._client = registry.client

    def has(self, name: str) -> bool:
        """Whether the registry has a dataset with exactly this name."""
        return self._registry.ask(f"dataset {name!r}", lambda: self._model(name)) is not None

    def versions_of(self, name: str) -> list[str]:
        """Return the versions of a dataset; only the latest when the registry cannot list versions."""
        versions = self._registry.ask(f"dataset {name!r}", lambda: self._versions_of(name))
        return [str((version.tags or {}).get(VERSION_TAG, version.version)) for version in versions]

    def require(self, name: str) -> None:
        """Raise ConfigError: the dataset does not exist. The message suggests a name that differs
        only in case.
        """
        if self.has(name):
            return
        alike = [existing for existing in self._names() if existing.lower() == name.lower()]
        suggestion = f"; did you mean {alike[0]!r}?" if alike else ""
        raise ConfigError(
            f"the registry has no dataset {name!r}{suggestion}", hint="names are case-sensitive"
        )

    def find(self, name: str, version: str) -> DatasetVersion | None:
        """Return a version of a dataset, or None when it does not exist."""
        what = f"dataset {name!r} {version}"
        model_version = self._registry.ask(what, lambda: self._version(name, version))
        return None if model_version is None else self._described(what, model_version, version)

    def create(self, name: str, version: str, artifact: str, sha256: str) -> DatasetVersion:
        """Create a version, and the dataset too if it does not exist."""
        what = f"dataset {name!r} {version}"
        if not self.has(name):
            self._registry.ask(what, lambda: self._create_model(name))
        tags = {VERSION_TAG: version, DIGEST_TAG: f"{sha256} {artifact}"}
        model_version = self._registry.ask(what, lambda: self._create_version(name, version, tags))
        return self._described(what, model_version, version)

    def delete(self, name: str) -> None:
        """Delete the dataset with all its versions."""
        self._registry.ask(f"dataset {name!r}", lambda: self._client.delete_registered_model(name))
        if self.has(name):
            raise RunFailed(f"dataset {name!r} is still in the registry after it was deleted")

    def _model(self, name: str) -> "RegisteredModel | None":
        from mlflow.exceptions import MlflowException

        try:
            model = self._client.get_registered_model(name)
        except MlflowException as error:
            if _is_missing(error):
                return None
            raise
        # Some databases compare names as if case did not matter.
        return model if model.name == name else None

    def _names(self) -> list[str]:
        from mlflow.exceptions import MlflowException

        try:
            return [model.name for model in self._client.search_registered_models(max_results=1000)]
        except MlflowException:
            return []  # only a hint

    def _create_model(self, name: str) -> None:
        from mlflow.exceptions import MlflowException

        try:
            self._client.create_registered_model(name)
        except MlflowException as error:
            # By somebody else, or by a try whose answer was lost.
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise

    def _version(self, name: str, version: str) -> "ModelVersion | None":
        from mlflow.exceptions import MlflowException

        try:
            return self._client.get_model_version(name, version)
        except MlflowException as error:
            if _is_missing(error):
                return None
            if error.error_code not in {"INVALID_PARAMETER_VALUE", "BAD_REQUEST"}:
                raise
        # A plain MLflow server counts versions from 1; ours is in a tag.
        for model_version in self._listed(name):
            if (model_version.tags or {}).get(VERSION_TAG) == version:
                return model_version
        return None

    def _versions_of(self, name: str) -> "list[ModelVersion]":
        from mlflow.exceptions import MlflowException

        try:
            return list(self._listed(name))
        except MlflowException:  # GitLab's lists no versions
            model = self._model(name)
            return model.latest_versions or [] if model else []

    def _listed(self, name: str) -> "Iterator[ModelVersion]":
        """Yield all versions in order, reading the registry page by page."""
        quoted = name.replace("'", "\\'")
        token = None
        while True:
            page = self._client.search_model_versions(
                f"name='{quoted}'", 1000, ["version_number ASC"], page_token=token
            )
            yield from (model_version for model_version in page if model_version.name == name)
            token = page.token
            if not token:
                return

    def _create_version(self, name: str, version: str, tags: dict[str, str]) -> "ModelVersion":
        from mlflow.exceptions import MlflowException

        model_version = self._version(name, version)  # made by a try whose answer was lost
        if model_version is not None:
            return model_version
        try:
            return self._client.create_model_version(
                name, source="", tags=tags, await_creation_for=0
            )
        except MlflowException as error:
            if error.error_code not in {"INVALID_PARAMETER_VALUE", "BAD_REQUEST"}:
                raise
        # GitLab makes a place for the files; a plain MLflow server wants to be told a run's.
        run = self._client.create_run(self._experiment(), run_name=f"{name} {version}")
        self._client.set_terminated(run.info.run_id)
        return self._client.create_model_version(
            name,
            source=run.info.artifact_uri,
            run_id=run.info.run_id,
            tags=tags,
            await_creation_for=0,
        )

    def _experiment(self) -> str:
        experiment = self._client.get_experiment_by_name(EXPERIMENT)
        return str(
            experiment.experiment_id if experiment else self._client.create_experiment(EXPERIMENT)
        )

    def _described(self, what: str, model_version: "ModelVersion", version: str) -> DatasetVersion:
        run = model_version.run_id
        if run:
            info = self._registry.ask(what, lambda: self._client.get_run(run)).info
            files = info.artifact_uri
        else:
            files = model_version.source
        if not files:
            raise RunFailed(f"{what}: the registry does not return the address of its files")
        tags = model_version.tags or {}
        return DatasetVersion(model_version.name, version, str(files), tags.get(DIGEST_TAG))


def _is_missing(error: "MlflowException") -> bool:
    return error.error_code in {"RESOURCE_DOES_NOT_EXIST", "NOT_FOUND", "ENDPOINT_NOT_FOUND"}
