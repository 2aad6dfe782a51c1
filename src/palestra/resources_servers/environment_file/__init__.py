"""Serve an environment that is one Python file with an `@environment` function."""
