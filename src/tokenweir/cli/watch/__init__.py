"""Whether all goes on: `status` and `tail`."""
