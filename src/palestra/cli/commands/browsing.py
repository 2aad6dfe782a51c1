"""`palestra list`, `show`, `runs`, `view`, `completion`: the flags of the commands that show what there is."""

import typer

from palestra.cli.flags import Flags, run, settings_command


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    settings_command(app, "ListArgs", name="list")(list_components)
    settings_command(app, "ShowArgs", name="show")(show)
    settings_command(app, "RunsArgs", name="runs")(list_runs)
    settings_command(app, "ViewArgs", name="view")(view)
    settings_command(app, "CompletionArgs", name="completion")(completion)


def list_components(flags: Flags) -> None:
    """List environments, agents, models and benchmarks. Says what each is and what it needs.

    Without --kind and without words, lists environments.
    """
    run("palestra.cli.listing:list_components", "ListArgs", flags)


def show(flags: Flags) -> None:
    """Show a component, a run, or one rollout. A rollout has its transcript.

    In a terminal, a long text opens in $PAGER.
    """
    run("palestra.cli.showing:show", "ShowArgs", flags)


def list_runs(flags: Flags) -> None:
    """List the runs in a folder, the newest first. Says what ran, how far, and its mean reward."""
    run("palestra.cli.listing:list_runs", "RunsArgs", flags)


def view(flags: Flags) -> None:
    """Look at runs in the browser, also while they run. Has tables, transcripts, failures, comparisons.

    Answers on this machine only, and only reads. Ctrl-C ends it.
    """
    run("palestra.cli.viewing:view", "ViewArgs", flags)


def completion(flags: Flags) -> None:
    """Print the script for completion in your shell. It completes commands and flags."""
    run("palestra.cli.completing:completion", "CompletionArgs", flags)
