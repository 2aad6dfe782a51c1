"""Datasets on the Hugging Face hub: a validated file goes up, a file or a split comes down.

    settings -> checks (this machine only) -> uploading | downloading (the hub)

Whatever cannot be is said before the hub is asked. Only `calls`, `uploading`, `downloading` and
`repositories` import huggingface_hub, which is an extra; import them where they are used.
"""

from palestra.datasets.hub.checks import UploadTarget, check_rows, target_of

__all__ = [
    "UploadTarget",
    "check_rows",
    "target_of",
]
