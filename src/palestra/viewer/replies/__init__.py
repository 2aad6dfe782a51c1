"""The replies of the viewer's server: what each endpoint of `palestra.viewer.endpoints` returns.

The page's TypeScript types are made from these structs (`scripts/viewer_types.py`).

- Replies are JSON with these field names. A number that is not finite is null. Texts are as stored:
  the page makes control characters visible. Texts are cut where a docstring gives a limit.
- A *row* is a number that the index gives to one line of a run's files; it names lines that have no
  key, or a key that occurs twice. A *key* is `task:rollout`, as in `17:3`.
- A reply about a part that the files do not hold has an empty list and says so in `absent`, one
  sentence for the reader.
- An error is an `ErrorReply`, with the HTTP status 400 (the query), 403, 404 (no such run, task,
  rollout), 405, 409 (the run changed: load the page again), 500 or 503 (not indexed yet).
"""
