"""Verification of mathematical answers: our workers against math-verify in a single process."""
