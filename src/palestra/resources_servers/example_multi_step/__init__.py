"""Several tool calls that build on each other: look values up, then submit them."""
