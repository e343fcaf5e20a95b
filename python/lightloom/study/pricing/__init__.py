"""Results priced again: other prices and powers, a number of tokens, a budget or a power limit."""

from lightloom.study.pricing.run import Pricing, priced

__all__ = ["Pricing", "priced"]
