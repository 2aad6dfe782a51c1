"""Runs environments written for the `verifiers` library, with our models behind them."""
