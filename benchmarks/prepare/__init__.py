"""What it takes to prepare a million rows: time against parsing them, and memory."""
