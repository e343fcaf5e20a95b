"""Reading input: strict descriptions, bounded files, tables; what is wrong becomes one line."""
