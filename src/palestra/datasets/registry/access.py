"""Requests to the registry, with a timeout for every wait and with Palestra's error messages.

MLflow's client reads its token and timeouts from environment variables, retries silently for
minutes, and sends telemetry. `open_registry` sets environment variables that change this while the
registry is open.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

from palestra.datasets.transfer.patience import TransferPatience, Trouble
from palestra.errors import (
    ConfigError,
    CredentialsRejected,
    PalestraError,
    RunFailed,
    excerpt,
    require_extra,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException
    from requests import Response
from collections.abc import Mapping
from typing import Self

from palestra.config import ConfigTree

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
    """The registry's address and access token."""

    uri: str
    token: str = field(repr=False)

    @classmethod
    def of(cls, tree: ConfigTree, environ: Mapping[str, str]) -> Self:
        """Read the address from the configuration, else from the environment.

        Raises ConfigError that lists everything missing and where to put it.
        """
        settings = {
            name: str(tree.get(name) or environ.get(variable) or "")
            for name, (variable, _) in _WHERE.items()
        }
        missing = [name for name, value in settings.items() if not value]
        if missing:
            lines = "; ".join(
                f"put {name}: {_WHERE[name][1]} into env.yaml, or set {_WHERE[name][0]}"
                for name in missing
            )
            are = "is" if len(missing) == 1 else "are"
            raise ConfigError(f"{' and '.join(missing)} {are} not set", hint=lines)
        address = cls(
            settings["mlflow_tracking_uri"].rstrip("/"), settings["mlflow_tracking_token"]
        )
        parts = urlsplit(address.uri)
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            raise ConfigError(
                "mlflow_tracking_uri is not an address that begins with http:// or https://",
                hint=f"for GitLab: {_WHERE['mlflow_tracking_uri'][1]}",
            )
        return address


T = TypeVar("T")

HOW_TO_BE_LET_IN: Final = (
    "put mlflow_tracking_token into env.yaml, or set MLFLOW_TRACKING_TOKEN: an access token of the "
    "project with the api scope"
)
PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})


class RegistryRefused(Exception):
    """The registry answered an upload or download with an error status."""

    def __init__(self, status: int, message: str, retry_after_s: float | None) -> None:
        super().__init__(f"{status} {message}")
        self.status = status
        self.said = message
        self.retry_after_s = retry_after_s


class NoFile(Exception):
    """The registry answered with something other than the file, for example a login page."""


@dataclass(frozen=True)
class Registry:
    """An open connection to the registry. Created by `open_registry`."""

    address: RegistryAddress
    patience: TransferPatience
    client: "MlflowClient" = field(repr=False)

    def ask(self, what: str, call: Callable[[], T], *, moved: Callable[[], int] = lambda: 0) -> T:
        """Return the result of `call`, with retries. `what` is the start of the error message on
        failure.
        """
        try:
            return self.patience.insist(what, call, trouble_of, moved=moved)
        except PalestraError:
            raise
        except Exception as error:
            failure = as_error(what, error)
        # Out here: the foreign error holds the request, and the request the token.
        raise failure

    def send(self, method: str, url: str, **options: object) -> "Response":
        """Send one upload or download request and return the response, whatever its status. The
        token is sent only to the registry's own host.
        """
        from mlflow.utils.rest_utils import MlflowHostCreds, http_request

        ours = urlsplit(url).netloc == urlsplit(self.address.uri).netloc
        answer: Response = http_request(
            MlflowHostCreds(host=url, token=self.address.token if ours else None),
            "",
            method,
            max_retries=0,
            raise_on_status=False,
            timeout=self.patience.answer_timeout_s,
            **options,
        )
        return answer


@contextlib.contextmanager
def open_registry(address: RegistryAddress, patience: TransferPatience) -> Iterator[Registry]:
    """Yield the open registry while the body runs. Raises ConfigError: the extra is not installed."""
    require_extra("mlflow", extra="registry", what="GitLab's registry")
    timeout = str(max(1, round(patience.answer_timeout_s)))
    with _environment(
        MLFLOW_DISABLE_TELEMETRY="true",
        MLFLOW_ENABLE_DB_SDK="false",
        MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT="true",  # of runs, which are no matter of our users
        MLFLOW_HTTP_REQUEST_MAX_RETRIES="0",
        MLFLOW_HTTP_REQUEST_TIMEOUT=timeout,
        MLFLOW_TRACKING_TOKEN=address.token,
        MLFLOW_TRACKING_USERNAME=None,
        MLFLOW_TRACKING_PASSWORD=None,
        MLFLOW_REGISTRY_URI=None,
    ):
        from mlflow import MlflowClient

        yield Registry(address, patience, MlflowClient(address.uri, address.uri))


@contextlib.contextmanager
def _environment(**variables: str | None) -> Iterator[None]:
    """Set environment variables while the body runs; None unsets a variable."""
    before = {name: os.environ.get(name) for name in variables}
    _set(variables)
    try:
        yield
    finally:
        _set(before)


def _set(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def trouble_of(error: Exception) -> Trouble | None:
    """Return why a retry may succeed after `error`, or None when it cannot."""
    from mlflow.exceptions import MlflowException
    from requests.exceptions import RequestException

    if isinstance(error, RegistryRefused):
        return _passing(error.status, error.retry_after_s)
    if not isinstance(error, MlflowException):
        return _broken(error)
    below = error.__cause__ or error.__context__
    if isinstance(below, RequestException):
        return _broken(below)
    return _passing(_status_of(error), None)


_STATUSES: Final = {
    "invalid_token": 401,
    "insufficient_scope": 403,
    "insufficient_granular_scope": 403,
}
"""GitLab's error codes that MLflow's client does not know -> HTTP status."""


def _status_of(error: "MlflowException") -> int:
    """Return the HTTP status of the registry's response; 0 when it is unknown.

    For a response without one of MLflow's own error codes, the client keeps only the text.
    """
    error_fields = getattr(error, "json", None)
    if not isinstance(error_fields, dict) or "error_code" in error_fields:
        return int(error.get_http_status_code())
    for text in map(str, (error_fields.get("message", ""), error_fields.get("error", ""))):
        if text in _STATUSES:
            return _STATUSES[text]
        if text[:3].isdecimal() and text[3:4] in {"", " "}:  # as in `401 Unauthorized`
            return int(text[:3])
    return 0


def _passing(status: int, retry_after_s: float | None) -> Trouble | None:
    if status not in PASSING:
        return None
    return Trouble(f"the registry answered {status}", retry_after_s)


def _broken(error: BaseException) -> Trouble | None:
    """Return why a retry may succeed after a connection error, or None."""
    from requests import exceptions
    from urllib3.exceptions import ReadTimeoutError

    # What urllib3 met stands in what it raised, which stands in what requests raised.
    reason = getattr(error.args[0], "reason", None) if error.args else None
    if isinstance(error, exceptions.Timeout) or isinstance(reason, ReadTimeoutError):
        return Trouble("the registry did not answer in time")
    if isinstance(error, exceptions.RetryError):
        return Trouble("the registry reports an internal error")
    broken = (exceptions.ConnectionError, exceptions.ChunkedEncodingError, ConnectionError)
    if isinstance(error, broken):
        return Trouble(f"the connection to the registry failed ({type(error).__name__})")
    return None


def as_error(what: str, error: Exception) -> PalestraError:
    """Return the error as a PalestraError with a message that starts with `what`."""
    from mlflow.exceptions import MlflowException

    if isinstance(error, NoFile):
        return CredentialsRejected(f"{what}: {error}", hint=HOW_TO_BE_LET_IN)
    if isinstance(error, RegistryRefused):
        return _refused(what, error.status, error.said)
    if isinstance(error, MlflowException):
        return _refused(what, _status_of(error), str(error.message))
    return RunFailed(f"{what}: {type(error).__name__}: {_in_short(str(error))}")


def _refused(what: str, status: int, server_words: str) -> PalestraError:
    short_words = _in_short(server_words).removeprefix("INTERNAL_ERROR: ")
    if status == 401:
        return CredentialsRejected(
            f"{what}: the registry rejects the token ({short_words})",
            hint=HOW_TO_BE_LET_IN,
            status=status,
        )
    if status == 403:
        return CredentialsRejected(
            f"{what}: the token has no permission for this ({short_words})",
            hint=HOW_TO_BE_LET_IN,
            status=status,
        )
    if status == 404:
        return ConfigError(
            f"{what}: does not exist in the registry ({short_words})",
            hint="names are case-sensitive; mlflow_tracking_uri names the project",
        )
    answer_text = f"the registry answered {status}" if status else "the registry refuses"
    return RunFailed(f"{what}: {answer_text} ({short_words})")


def _in_short(server_words: str) -> str:
    lines = server_words.strip().splitlines()
    return excerpt(lines[0]) if lines else "without a word"
