"""Short answers, which a judge compares with the expected answer."""
