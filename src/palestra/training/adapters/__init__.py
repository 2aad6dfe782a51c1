"""Adapters that return rollouts in the shapes that trainers use; one module for each trainer.

`ray` (an actor that runs rollouts), `trl`, `verl` and `verl_loop`, `skyrl`, `nemo_rl` and
`nemo_rl_environment`, `verifiers` (with prime-rl). None of them imports its trainer, or torch, at
module level; `docs/topics/training-adapters.md` shows each in ten lines.

Two rules apply to all adapters. A failed rollout has no reward, so it never becomes a row with a
reward: if a trainer cannot accept rollouts without a reward, the adapter raises an error. A masked
rollout keeps its reward, and its mask is all zeros.
"""
