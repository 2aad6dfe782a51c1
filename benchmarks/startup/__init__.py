"""How long it takes to get going: imports, `--help`, a fleet that is ready."""
