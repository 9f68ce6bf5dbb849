"""Quotas: what may be spent in windows of the calendar (DESIGN, decision 9; PROTOCOL Q1 to Q3)."""
