"""Datasets on the Hugging Face hub: a validated file goes up, a file or a split comes down.

    settings -> checks (this machine only) -> uploading | downloading (the hub)

Whatever cannot be is said before the hub is asked. huggingface_hub is an extra:
`open_hub` imports what imports it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from palestra.datasets.extras import needs
from palestra.datasets.hub.checks import UploadTarget, check_rows, target_of
from palestra.datasets.transfer.patience import TransferPatience

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
    """The hub as this user reaches it. Raises ConfigError without the extra."""
    needs("huggingface_hub", extra="hub", what="the Hugging Face hub")
    from palestra.datasets.hub.calls import Hub

    return Hub.of(tree, environ, patience)
