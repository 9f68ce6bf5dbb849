"""What a pool can do: `capacity`."""
