"""Runs inside the traced program, with its Python: nothing but PyTorch is imported here."""
