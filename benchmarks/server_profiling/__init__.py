"""What timing servers' functions costs, on and off."""
