"""What `palestra doctor` takes for many rows: everything must be said within seconds."""
