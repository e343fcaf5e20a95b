"""Measuring the operators of a GPU, and writing them as a profile."""
