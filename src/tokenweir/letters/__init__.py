"""Dead letters: what they are, and how those that can be used after all are sent again."""
