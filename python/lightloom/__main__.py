"""``python -m lightloom``."""

from lightloom.cli import main

main()
