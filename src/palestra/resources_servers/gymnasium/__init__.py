"""Any environment of the Gymnasium API, played in words: `env_id` says which."""
