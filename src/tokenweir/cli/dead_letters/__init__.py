"""What could not be used: `dead-letters`."""
