"""A dialogue with prepared follow-up questions, scored on the last answer: the smallest environment that takes turns."""
