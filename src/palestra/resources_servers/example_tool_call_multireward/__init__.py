"""One tool call with three rewards: an example of a reward with named components."""
