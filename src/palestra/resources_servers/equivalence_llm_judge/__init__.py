"""Short answers, compared with the right one by a judge."""
