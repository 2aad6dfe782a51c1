"""Requests to the hub, with a timeout for every wait and with Palestra's error messages.

By default huggingface_hub waits forever for a silent server. It also retries without a pause when
two repositories are created at the same time. So this module creates the HTTP client itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import httpx2
from huggingface_hub import HfApi, get_token, set_client_factory
from huggingface_hub.constants import is_offline_mode
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils.logging import set_verbosity_error
from huggingface_hub.utils.tqdm import disable_progress_bars

from palestra.config import ConfigTree
from palestra.datasets.hub.checks import UploadTarget
from palestra.datasets.hub.references import HubReference
from palestra.datasets.transfer.outgoing import Outgoing, UploadProgress
from palestra.datasets.transfer.patience import TransferPatience, Trouble
from palestra.errors import (
    ConfigError,
    CredentialsRejected,
    PalestraError,
    RunFailed,
    excerpt,
)
from palestra.settings import HubDownload, HubUpload

if TYPE_CHECKING:
    from palestra.datasets.hub.uploading import Uploaded

T = TypeVar("T")

HOW_TO_BE_LET_IN: Final = (
    "put hf_token: hf_… into env.yaml, or set HF_TOKEN; a token with write access is needed to "
    "upload"
)
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})
_CREATING: Final = "another conflicting operation is in progress"


class _CreatingBusy(Exception):
    """The hub is still creating another repository for the same account."""


@dataclass(frozen=True)
class Hub:
    """A client of the hub with this user's token, endpoint and retry settings."""

    token: str | None = field(default=None, repr=False)
    endpoint: str | None = None
    """The hub's address. Default: the value of HF_ENDPOINT, else the public hub."""
    patience: TransferPatience = field(default_factory=TransferPatience)

    @classmethod
    def of(cls, tree: ConfigTree, environ: Mapping[str, str], patience: TransferPatience) -> "Hub":
        """Create the client with the token from `hf_token`, else from HF_TOKEN, else from the
        stored Hugging Face login.
        """
        own_token = tree.get("hf_token")
        token = own_token if isinstance(own_token, str) and own_token else get_token()
        return cls(token, environ.get("HF_ENDPOINT") or None, patience)

    def require_token(self) -> None:
        """Raise ConfigError: no token is set. The hint explains where to put the token."""
        if not self.token:
            raise ConfigError(
                "hf_token is not set, and the Hugging Face hub needs it for an upload",
                hint=HOW_TO_BE_LET_IN,
            )

    def upload(
        self,
        file: Outgoing,
        target: UploadTarget,
        settings: HubUpload,
        progress: UploadProgress,
    ) -> "Uploaded":
        """Upload a checked file to a repository; see `uploading.upload`."""
        from palestra.datasets.hub.uploading import upload

        return upload(file, target, settings, self, progress)

    def download(
        self, settings: HubDownload, progress: UploadProgress, *, or_split: str | None = None
    ) -> list[Path]:
        """Download a file or a split; see `downloading.download`."""
        from palestra.datasets.hub.downloading import download

        return download(settings, self, progress, or_split=or_split)

    def cached_split(self, reference: HubReference, cache: Path, progress: UploadProgress) -> Path:
        """Return a file with the rows of a split; see `downloading.cached_split`."""
        from palestra.datasets.hub.downloading import cached_split

        return cached_split(reference, cache, self, progress)

    @cached_property
    def api(self) -> HfApi:
        """The `huggingface_hub` API client, with timeouts on every request."""
        longest_s = self.patience.answer_timeout_s

        def before(request: httpx2.Request) -> None:
            """Refuse a request in offline mode, which the library checks in its own client only.

            Set timeouts, because most calls of the library override the client's timeouts with
            none.
            """
            if is_offline_mode():
                raise OfflineModeIsEnabled
            timeouts = request.extensions.get("timeout", {})
            request.extensions["timeout"] = {
                phase: min(timeouts.get(phase) or longest_s, longest_s)
                for phase in ("connect", "read", "write", "pool")
            }

        set_client_factory(
            lambda: httpx2.Client(
                follow_redirects=True,
                timeout=longest_s,
                event_hooks={"request": [before], "response": [_look_at]},
            )
        )
        # Its warnings quote addresses, which may be signed; ours say what matters.
        set_verbosity_error()
        disable_progress_bars()  # they would run through ours
        # Without a token of its own the client would look for one again.
        return HfApi(endpoint=self.endpoint, token=self.token or False)

    def ask(
        self,
        what: str,
        call: Callable[[], T],
        *,
        moved: Callable[[], int] = lambda: 0,
        passing: Callable[[Exception], Trouble | None] | None = None,
    ) -> T:
        """Return the result of `call`, with retries. `what` is the start of the error message on
        failure.

        `passing`: decides which failures are retried; by default `trouble_of`.
        """
        try:
            return self.patience.insist(what, call, passing or trouble_of, moved=moved)
        except PalestraError:
            raise
        except Exception as error:
            failure = as_error(what, error)
        # Out here: the foreign error holds the request, and the request the token.
        raise failure


def _look_at(response: httpx2.Response) -> None:
    if response.status_code == 409:
        response.read()
        if _CREATING in response.text:
            raise _CreatingBusy


def trouble_of(error: Exception) -> Trouble | None:
    """Return why a retry may succeed after `error`, or None when it cannot."""
    cause = _innermost(error)
    if isinstance(cause, _CreatingBusy):
        return Trouble(f"the hub says that {_CREATING}")
    if isinstance(cause, httpx2.TimeoutException):
        return Trouble("the hub did not answer in time")
    if isinstance(cause, httpx2.TransportError) and not isinstance(
        cause, httpx2.UnsupportedProtocol
    ):
        return Trouble(f"the connection to the hub failed ({_in_short(cause)})")
    if isinstance(cause, HfHubHTTPError) and cause.response.status_code in _PASSING:
        status = cause.response.status_code
        return Trouble(f"the hub answered {status}", _retry_after_s(cause.response))
    return None


def _innermost(error: BaseException) -> BaseException:
    """Return the original error. The library wraps upload errors in a RuntimeError (`Error while
    uploading … to the Hub`).
    """
    while type(error) is RuntimeError and error.__cause__ is not None:
        error = error.__cause__
    return error


def _retry_after_s(response: httpx2.Response) -> float | None:
    retry_after = response.headers.get("retry-after", "")
    return float(retry_after) if retry_after.isdecimal() else None


def as_error(what: str, error: Exception) -> PalestraError:
    """Return the error as a PalestraError with a message that starts with `what`."""
    cause = _innermost(error)
    if isinstance(cause, OfflineModeIsEnabled):
        return ConfigError(f"{what}: HF_HUB_OFFLINE is set", hint="unset HF_HUB_OFFLINE")
    if isinstance(cause, HFValidationError):
        return ConfigError(f"{what}: {_in_short(cause)}")
    if isinstance(cause, httpx2.TransportError | httpx2.InvalidURL):
        return ConfigError(f"{what}: {_in_short(cause)}", hint="check the value of HF_ENDPOINT")
    if isinstance(cause, HfHubHTTPError):
        return _refused(what, cause)
    return RunFailed(f"{what}: {type(cause).__name__}: {_in_short(cause)}")


_ABSENT: Final = (
    (RevisionNotFoundError, "the repository has no such revision"),
    (EntryNotFoundError, "the repository has no such file"),
    (
        RepositoryNotFoundError,
        "the hub has no such dataset repository, or does not show it to this token",
    ),
)


def _refused(what: str, error: HfHubHTTPError) -> PalestraError:
    status = error.response.status_code
    if isinstance(error, GatedRepoError):
        return CredentialsRejected(
            f"{what}: the repository is gated",
            hint=f"request access on its web page; {HOW_TO_BE_LET_IN}",
            status=status,
        )
    for kind, reason in _ABSENT:
        if isinstance(error, kind):
            return ConfigError(
                f"{what}: {reason}",
                hint=HOW_TO_BE_LET_IN if kind is RepositoryNotFoundError else "",
            )
    server_words = _refusal_text(error)
    if status in {401, 403}:
        reason = (
            "the hub rejects the token"
            if status == 401
            else ("the token has no permission for this")
        )
        return CredentialsRejected(
            f"{what}: {reason}{server_words}", hint=HOW_TO_BE_LET_IN, status=status
        )
    if status == 404:
        return ConfigError(f"{what}: does not exist on the Hugging Face hub{server_words}")
    return RunFailed(f"{what}: the hub answered {status}{server_words}")


def _refusal_text(error: HfHubHTTPError) -> str:
    words = (error.server_message or "").strip()
    return f": {excerpt(words)}" if words else ""


def _in_short(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return excerpt(lines[0]) if lines else type(error).__name__
