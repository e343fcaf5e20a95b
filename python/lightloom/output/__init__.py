"""Writing results: files that are there whole or not at all, rows as they come, progress."""
