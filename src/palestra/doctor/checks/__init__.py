"""The checks before a run, by layer. Each returns what it examined and its findings."""
