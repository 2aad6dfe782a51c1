"""`gym dataset …`: rows of tasks."""

from palestra.cli.gym.grammar import Invocation, as_text

GITLAB = "gitlab"


def upload(invocation: Invocation, overrides: list[str]) -> int:
    """Upload a file to the hub or to GitLab's registry."""
    from palestra.cli.sharing import upload_to_gitlab, upload_to_hub

    send = upload_to_gitlab if _is_gitlab(invocation) else upload_to_hub
    return send(_with_revision(invocation, overrides), ng=True)


def download(invocation: Invocation, overrides: list[str]) -> int:
    """Download a file or splits from the hub, or a file from GitLab's registry."""
    from palestra.cli.sharing import download_from_gitlab, download_from_hub

    fetch = download_from_gitlab if _is_gitlab(invocation) else download_from_hub
    return fetch(_with_revision(invocation, overrides), ng=True)


def remove(_invocation: Invocation, overrides: list[str]) -> int:
    """Delete a dataset from GitLab's registry, after a question."""
    from palestra.cli.sharing import delete_from_gitlab

    return delete_from_gitlab(overrides, ng=True)


def migrate(invocation: Invocation, overrides: list[str]) -> int:
    """Move a dataset from GitLab's registry to the hub. `--revision` is the registry's version."""
    from palestra.cli.sharing import migrate as move

    return move([*_revision(invocation, "version"), *overrides], ng=True)


def render(_invocation: Invocation, overrides: list[str]) -> int:
    """Fill rows into a prompt template."""
    from palestra.cli.importing import render as render_rows

    return render_rows(overrides, ng=True)


def collate(invocation: Invocation, overrides: list[str]) -> int:
    """Check, measure and write the datasets of the configuration's agents."""
    from palestra.cli.preparing import prepare

    return prepare(overrides, ng=True, as_json=invocation.json)


def _is_gitlab(invocation: Invocation) -> bool:
    return invocation.flags.get("storage") == GITLAB


def _with_revision(invocation: Invocation, overrides: list[str]) -> list[str]:
    setting = "version" if _is_gitlab(invocation) else "revision"
    return [*_revision(invocation, setting), *overrides]


def _revision(invocation: Invocation, setting: str) -> list[str]:
    """Return the override for `--revision`, which is a version in GitLab's registry."""
    revision = invocation.flags.get("revision")
    return [] if revision is None else [f"+{setting}={as_text(revision)}"]
