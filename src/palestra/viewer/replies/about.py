"""The reply about the files of a run."""

from palestra.viewer.replies.base import NamedText, Reply
from palestra.viewer.replies.runs import UnreadableLine


class FileLine(Reply, frozen=True, kw_only=True):
    """One file of a run."""

    role: str
    path: str
    bytes: int | None
    """Null when it does not exist."""
    modified_at: float | None


class About(Reply, frozen=True, kw_only=True):
    """`/api/r/{run}/about`: the files, the manifest, the index."""

    files: list[FileLine]
    manifest: str
    """The manifest as indented JSON, without secrets."""
    settings: list[NamedText]
    versions: list[NamedText]
    index: list[NamedText]
    """Where the index is, its size and state, and why it was built anew."""
    bad_lines: list[UnreadableLine]
    bad_lines_total: int
