"""The flags of the `palestra` commands, one module per group; what they do is beside, in `cli`.

Each module has `register(app)`. Flags are declared here and become settings; modules with the
work itself are imported when a command runs, so that `--help` stays quick.
"""
