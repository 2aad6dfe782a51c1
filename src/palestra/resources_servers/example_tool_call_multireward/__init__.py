"""One tool call, judged three ways: an example of a reward with named components."""
