"""An agent that runs environments of the `verifiers` library with Palestra's model servers."""
