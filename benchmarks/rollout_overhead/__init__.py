"""CPU per rollout (two model calls, one tool call) against the floor and the seven-hop layout."""
