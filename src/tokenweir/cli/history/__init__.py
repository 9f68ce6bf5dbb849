"""What happened, from the history: `explain`, `sql` and `usage`."""
