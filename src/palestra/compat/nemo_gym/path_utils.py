"""`nemo_gym.path_utils`: the names of the files beside a rollouts file."""

from pathlib import Path


def failures_path_for(output_fpath: Path) -> Path:
    """Return the path of the file with failed attempts: `<stem>_failures.jsonl`, same folder."""
    path = Path(output_fpath)
    return path.with_name(f"{path.stem}_failures.jsonl")


__all__ = ["failures_path_for"]
