"""The agent of environments in one file: it runs tools, and takes turns where the environment does."""
