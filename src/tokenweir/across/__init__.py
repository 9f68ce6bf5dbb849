"""Quotas over several pools: what each pool may spend of one (PROTOCOL Q2). No clock and no I/O."""
