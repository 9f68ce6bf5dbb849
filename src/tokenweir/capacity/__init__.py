"""What a pool's engines can do, measured where they run: vLLM's Prometheus metrics."""
