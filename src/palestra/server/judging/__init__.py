"""How an environment asks a judge: a model that compares what was answered with what was wanted.

- `questions` makes a question of a template and passages, each passage behind a fence that its
  author cannot write;
- `verdicts` reads one of the allowed labels from the reply, or says that there is none;
- `judge` asks a model server of the fleet, keeps every exchange, and replays those that a stored
  row holds.

A judge that fails, or whose verdict cannot be read, is a `JudgeFailure`: never a reward.
"""
