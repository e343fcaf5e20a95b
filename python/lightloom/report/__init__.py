"""Reports made from a comparison: tables, explanation, files, page, timeline."""
