"""One agent a file: decode, call the core, store, publish."""
