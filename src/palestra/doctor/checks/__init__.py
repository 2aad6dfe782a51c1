"""The checks before a run, one module per layer. Each returns what it looked at and found."""
