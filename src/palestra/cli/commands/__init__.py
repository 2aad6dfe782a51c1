"""The flags of the `palestra` commands, one module per group. The work itself is in `palestra.cli`.

Each module has `register(app)`, which adds its commands. Modules that do the work are imported when
a command runs, so that `--help` stays quick.
"""
