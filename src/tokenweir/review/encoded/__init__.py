"""Records as the wire's bytes, many numbers at once: `wire` takes longer for each of them."""
