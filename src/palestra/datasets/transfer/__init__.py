"""Moving a dataset's file to or from another machine: whole or not at all, and nobody waits forever.

    Patience     how long trouble of the network is put up with
    Progress     who is told how many bytes have moved
    arriving     a file that grows beside its destination and takes its place when it is whole
    Digest       what the bytes must be

Nothing here knows of a hub or a registry.
"""

from palestra.datasets.transfer.files import (
    Arriving,
    Digest,
    arriving,
    free_destination,
    git_blob_of,
    keeping,
    sha256_of,
)
from palestra.datasets.transfer.outgoing import (
    CountedReader,
    Outgoing,
    Silent,
    UploadProgress,
    outgoing,
)
from palestra.datasets.transfer.patience import TransferPatience, Trouble

__all__ = [
    "Arriving",
    "CountedReader",
    "Digest",
    "Outgoing",
    "Silent",
    "TransferPatience",
    "Trouble",
    "UploadProgress",
    "arriving",
    "free_destination",
    "git_blob_of",
    "keeping",
    "outgoing",
    "sha256_of",
]
