"""Rollouts in the shapes that trainers consume; one module for each, imported by its name.

`ray` (an actor that runs rollouts), `trl`, `verl`, `skyrl`, `nemo_rl`. None of them imports its
trainer, or torch, at module level; `docs/training-adapters.md` shows each in ten lines.

Two rules hold for all of them. A failed rollout has no reward, so it never becomes a row with one:
where a trainer has no place for it, the adapter raises. A masked rollout keeps its reward and has
a mask of zeros.
"""
