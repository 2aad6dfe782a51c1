"""Plays episodes: the environment answers each turn of the model, as Gymnasium does."""
