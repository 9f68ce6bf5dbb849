"""What is so now: `get`."""
