"""`gym dev test` and `gym --version`."""

from palestra.cli.gym.grammar import Invocation


def test(_invocation: Invocation, _overrides: list[str]) -> int:
    """Run Palestra's own tests."""
    from palestra.cli.authoring import ng_dev_test

    return ng_dev_test()


def version(invocation: Invocation, _overrides: list[str]) -> int:
    """Print what is installed, and where."""
    from palestra.cli.installed import print_version

    return print_version(as_json=invocation.json)
