"""A part of a log again: `replay`, `export`, `import`; and what all reviews read and write."""
