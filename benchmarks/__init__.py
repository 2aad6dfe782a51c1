"""Benchmarks: what Palestra costs, as ratios within one run. See README.md."""
