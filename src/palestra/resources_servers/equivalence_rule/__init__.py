"""Text answers: a rule scores how similar an answer is to the expected text."""
