"""What holds for every test."""

from hypothesis import settings

# How long an example takes says more about what else the machine does than about the code.
settings.register_profile("palestra", deadline=None)
settings.register_profile("thorough", deadline=None, max_examples=5_000)
settings.load_profile("palestra")
