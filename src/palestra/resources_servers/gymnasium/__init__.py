"""Any environment of the Gymnasium API, played as text: `env_id` names the environment."""
