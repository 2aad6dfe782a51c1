"""The smallest multi-turn environment: prepared follow-up questions, scored on the last answer."""
