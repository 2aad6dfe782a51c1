"""What it takes to profile hundreds of thousands of rollouts: load, statistics, memory."""
