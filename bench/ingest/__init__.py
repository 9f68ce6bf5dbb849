"""Requests a second through one control worker, decisions included, against its peers."""
