"""The version of the package that is installed; slow to find, and seldom needed."""

from importlib.metadata import version

__version__ = version("lightloom")
