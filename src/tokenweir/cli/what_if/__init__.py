"""What another policy would have done: `what-if`."""
