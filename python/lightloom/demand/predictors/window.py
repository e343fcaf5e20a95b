"""A window of the latest pairs (loads of one layer, loads of the next), oldest overwritten."""

from __future__ import annotations

import numpy as np

from lightloom.demand.predictors.protocol import Loads

#: weight of a pair over that of the next newer one; the paper says "weighted" and no more
DECAY = 0.95


class Window:
    """Inputs and targets of the last ``size`` steps, with the inputs' Gram matrix.

    ``inputs`` and ``targets`` are ``(size, experts)``, ``gram[i, j] = inputs[i] . inputs[j]``;
    the first ``count`` rows are in use, in no order of age.
    """

    def __init__(self, size: int, experts: int) -> None:
        self.inputs = np.zeros((size, experts))
        self.targets = np.zeros((size, experts))
        self.gram = np.zeros((size, size))
        self.count = 0
        self._next = 0
        self._by_age = DECAY ** np.arange(size, dtype=np.float64)

    def add(self, inputs: Loads, targets: Loads) -> None:
        """Put a pair in the place of the oldest."""
        size, place = len(self.inputs), self._next
        self.inputs[place] = inputs
        self.targets[place] = targets
        self.count = min(self.count + 1, size)
        row = self.inputs @ inputs
        self.gram[place] = row
        self.gram[:, place] = row
        self._next = (place + 1) % size

    def weights(self) -> Loads:
        """Weights of the rows in use, summing to one, falling with age."""
        size = len(self.inputs)
        ages = (self._next - 1 - np.arange(self.count)) % size
        weights = self._by_age[ages]
        weights /= weights.sum()
        return weights
