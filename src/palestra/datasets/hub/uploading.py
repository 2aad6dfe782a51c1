"""Upload a checked file to a repository of the hub, then verify the uploaded bytes by digest."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import httpx2
from huggingface_hub import CommitInfo, CommitOperationAdd
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.hf_api import RepoFile

from palestra.datasets.hub.calls import Hub, trouble_of
from palestra.datasets.hub.checks import UploadTarget
from palestra.datasets.transfer.files import git_blob_of
from palestra.datasets.transfer.outgoing import CountedReader, Outgoing, UploadProgress
from palestra.datasets.transfer.patience import Trouble
from palestra.errors import RunFailed
from palestra.settings import MAIN, HubUpload, InvalidSettings

DATASET: Final = "dataset"


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The result of an upload, after the hub's digest matched the file's."""

    repo_id: str
    path_in_repo: str
    url: str
    """The address of the commit; when the file was unchanged, of the repository."""
    pull_request: str | None
    """The address of the pull request. None when none was made, for example because the hub already
    had the bytes."""
    unchanged: bool
    """Whether the hub already had these bytes."""
    collection: str | None


def upload(
    file: Outgoing, target: UploadTarget, settings: HubUpload, hub: Hub, progress: UploadProgress
) -> Uploaded:
    """Create the repository if necessary, commit the file, verify it, and list it in the
    collection.

    Raises CredentialsRejected, ConfigError or RunFailed: the hub refuses the upload. InfraError:
    the hub stays unreachable.
    """
    return _Upload(file, target, settings, hub, progress).run()


class _Addition(CommitOperationAdd):
    """A file of a commit that reports how many bytes have been sent.

    It is given to the library as an open file, not by its path. So it travels over HTTP even when
    hf_xet is installed, which has no timeouts and shows no progress to other code.
    """

    path: Path
    progress: UploadProgress
    sent_bytes: int = 0

    @contextlib.contextmanager
    def as_file(self, with_tqdm: bool = False) -> Iterator[BinaryIO]:
        """Yield the open file for the library. The library sets `with_tqdm` when it sends the
        bytes; only then is progress counted.
        """
        if not with_tqdm:
            with super().as_file() as file:
                yield file
            return
        with CountedReader(self.path, self.progress) as counted:
            yield counted
            self.sent_bytes = max(self.sent_bytes, counted.told)


class _Upload:
    def __init__(
        self,
        file: Outgoing,
        target: UploadTarget,
        settings: HubUpload,
        hub: Hub,
        progress: UploadProgress,
    ) -> None:
        self._file = file
        self._target = target
        self._settings = settings
        self._hub = hub
        self._progress = progress
        self._repo = target.repo_id
        self._name = file.path.name
        self._what = f"{self._name} to {self._repo}"

    def run(self) -> Uploaded:
        self._find_collection()
        self._refuse_branch()
        self._make_repository()
        new_branch = self._settings.new_branch
        before = self._on_hub(MAIN if new_branch else self._settings.revision or MAIN)
        same = before == self._expected(before)
        if new_branch and not same:
            self._make_branch(new_branch)
        commit = None if same else self._send()
        revision = self._settings.revision or MAIN
        if commit is not None:
            revision = commit.pr_revision or commit.oid
            self._verify(revision)
        self._list_in_collection()
        api = self._hub.api
        return Uploaded(
            repo_id=self._repo,
            path_in_repo=self._name,
            url=str(commit) if commit else f"{api.endpoint}/datasets/{self._repo}",
            pull_request=commit.pr_url if commit else None,
            unchanged=commit is None,
            collection=self._target.collection,
        )

    def _find_collection(self) -> None:
        """Raise an error before any upload: the collection does not exist."""
        slug = self._target.collection
        if slug is not None:
            self._hub.ask(f"collection {slug}", lambda: self._hub.api.get_collection(slug))

    def _list_in_collection(self) -> None:
        slug = self._target.collection
        if slug is not None:
            self._hub.ask(
                f"{self._repo} into the collection {slug}",
                lambda: self._hub.api.add_collection_item(
                    slug, item_id=self._repo, item_type=DATASET, exists_ok=True
                ),
            )

    def _make_repository(self) -> None:
        what = f"repository {self._repo}"
        api = self._hub.api
        if not self._hub.ask(what, lambda: api.repo_exists(self._repo, repo_type=DATASET)):
            # `exist_ok`: somebody else's, or of a try whose answer was lost.
            self._hub.ask(
                what,
                lambda: api.create_repo(self._repo, repo_type=DATASET, private=True, exist_ok=True),
            )

    def _refuse_branch(self) -> None:
        """Raise ConfigError before any upload: the new branch already exists, so someone else may
        use it.
        """
        branch, api = self._settings.new_branch, self._hub.api
        if branch is None:
            return
        branch_exists = self._hub.ask(
            f"branch {branch} of {self._repo}",
            lambda: api.revision_exists(self._repo, branch, repo_type=DATASET),
        )
        if branch_exists:
            raise InvalidSettings.about(
                f"{self._repo} has the revision {branch!r} already, and create_pr (--create-pr) makes a "
                "new branch for its pull request; nothing was uploaded",
                hint="name another revision; or leave the revision out, for a pull request against "
                f"{MAIN}; or ask for no pull request, to commit to {branch}",
            )

    def _make_branch(self, branch: str) -> None:
        # `exist_ok`: it may be of a try whose answer was lost.
        self._hub.ask(
            f"branch {branch} of {self._repo}",
            lambda: self._hub.api.create_branch(
                self._repo, branch=branch, repo_type=DATASET, exist_ok=True
            ),
        )

    def _send(self) -> CommitInfo:
        """Upload the file and commit it. Large files are uploaded to the hub's file store first; a
        small file is part of the commit.
        """
        size = self._file.size_bytes
        self._progress.start(self._name, size, 0)
        try:
            with self._file.path.open("rb") as file:
                addition = _Addition(self._name, file)
                addition.path, addition.progress = self._file.path, self._progress
                self._send_large(addition)
                commit = self._commit(addition)
            self._progress.advance(size - addition.sent_bytes)
        finally:
            self._progress.end()
        return commit

    def _send_large(self, addition: _Addition) -> None:
        self._hub.ask(
            self._what,
            lambda: self._hub.api.preupload_lfs_files(
                self._repo,
                [addition],
                repo_type=DATASET,
                revision=self._settings.revision,
                create_pr=self._settings.create_pr,
                free_memory=False,
            ),
        )

    def _commit(self, addition: _Addition) -> CommitInfo:
        settings = self._settings
        message = settings.commit_message or f"Upload {self._name} ({settings.split})"
        return self._hub.ask(
            self._what,
            lambda: self._hub.api.create_commit(
                self._repo,
                [addition],
                commit_message=message,
                commit_description=settings.commit_description,
                repo_type=DATASET,
                revision=settings.revision,
                create_pr=settings.create_pr,
            ),
            passing=self._passing_before_the_commit if settings.create_pr else None,
        )

    def _passing_before_the_commit(self, error: Exception) -> Trouble | None:
        """Decide whether a failed commit may be retried. Raises RunFailed: the pull request may
        already exist, and a retry could create a second one.
        """
        if not _was_sent(error):
            return trouble_of(error)
        if trouble_of(error) is None:
            return None
        pulls = f"{self._hub.api.endpoint}/datasets/{self._repo}/discussions"
        raise RunFailed(
            f"{self._what}: the connection failed after the pull request was requested; it may "
            "exist",
            hint=f"look at {pulls} before you try again",
        ) from None

    def _on_hub(self, revision: str) -> str | None:
        """Return the digest of this file on the hub at `revision`; None when the file does not
        exist.
        """
        on_hub = self._hub.ask(
            self._what,
            lambda: self._hub.api.get_paths_info(
                self._repo, [self._name], revision=revision, repo_type=DATASET
            ),
        )
        for entry in on_hub:
            if isinstance(entry, RepoFile):
                return entry.lfs.sha256 if entry.lfs else entry.blob_id
        return None

    def _expected(self, like: str | None) -> str:
        """Return the local file's digest, of the same kind (git blob id or sha256) as `like`, the
        hub's digest.
        """
        if like is not None and len(like) == 40:
            return git_blob_of(self._file.path)
        return self._file.sha256

    def _verify(self, revision: str) -> None:
        on_hub = self._on_hub(revision)
        expected = self._expected(on_hub)
        if on_hub != expected:
            raise RunFailed(
                f"{self._what}: the file on the hub has the digest {on_hub}, the local file "
                f"{expected}",
                hint="upload it again; do not use the file on the hub",
            )


def _was_sent(error: Exception) -> bool:
    """Whether the hub may already have acted on the commit request that failed with `error`."""
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout):
        return False
    if isinstance(error, HfHubHTTPError) and error.response.status_code in {408, 429, 503}:
        return False
    request = getattr(error, "_request", None) or getattr(error, "request", None)
    return isinstance(request, httpx2.Request) and "/commit/" in request.url.path
