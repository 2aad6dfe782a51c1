"""An agent that plays episodes: the environment answers each model turn, as in Gymnasium."""
