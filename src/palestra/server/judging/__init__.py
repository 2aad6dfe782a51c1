"""Asks a judge: a model that compares a model's answer with the expected answer.

- `questions` builds a question from a template and passages, each passage behind a fence that its
  author cannot write, and reads one of the allowed labels from the reply;
- `judge` asks a model server of the fleet, keeps every exchange, and replays the exchanges that a
  stored row contains.

A judge that fails, or whose verdict cannot be read, is a `JudgeFailure`: never a reward.
"""
