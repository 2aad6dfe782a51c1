"""Blackjack against a dealer who draws up to seventeen."""
