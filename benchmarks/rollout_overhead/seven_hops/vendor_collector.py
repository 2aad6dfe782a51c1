"""The baseline with the `openai` package's types: the same servers and collector."""

from functools import partial

from benchmarks.rollout_overhead.seven_hops import collector

contender = partial(collector.contender, bodies="vendor")
