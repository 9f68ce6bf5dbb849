"""What it costs to keep what was settled over the end of the process."""
