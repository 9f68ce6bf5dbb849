"""The demo: a real pool under a load that one can watch, and the sums that must come out."""
