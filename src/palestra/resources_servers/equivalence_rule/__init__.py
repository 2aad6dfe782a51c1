"""Answers that are texts: how near does one come to the expected text, by a rule?"""
