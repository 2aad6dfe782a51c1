"""The checks before a run, by layer. Each returns what it looked at and found."""
