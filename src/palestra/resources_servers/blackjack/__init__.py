"""Blackjack against a dealer who draws to seventeen."""
