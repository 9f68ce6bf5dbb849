"""What it costs to admit a request and to settle it, against its peers."""
