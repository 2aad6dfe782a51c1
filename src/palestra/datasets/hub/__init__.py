"""Datasets on the Hugging Face hub: upload a validated file, or download a file or a split.

    settings -> checks (this machine only) -> uploading | downloading (the hub)

Errors that this machine can find are raised before the first request to the hub. huggingface_hub is
an optional extra: only `open_hub` imports the modules that import it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from palestra.datasets.hub.checks import UploadTarget, check_rows, target_of
from palestra.datasets.transfer.patience import TransferPatience
from palestra.errors import require_extra

if TYPE_CHECKING:
    from palestra.datasets.hub.calls import Hub

__all__ = [
    "UploadTarget",
    "check_rows",
    "open_hub",
    "target_of",
]


def open_hub(
    tree: Mapping[str, Any], environ: Mapping[str, str], patience: TransferPatience
) -> "Hub":
    """Return a client of the hub with this user's token. Raises ConfigError: the extra is not
    installed.
    """
    require_extra("huggingface_hub", extra="hub", what="the Hugging Face hub")
    from palestra.datasets.hub.calls import Hub

    return Hub.of(tree, environ, patience)
