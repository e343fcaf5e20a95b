"""Lightloom plans, simulates and runs reconfigurable fabrics for training MoE models."""

from importlib.metadata import version

__version__ = version("lightloom")
