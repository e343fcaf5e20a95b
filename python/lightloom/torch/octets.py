"""Tensors as bytes."""

from __future__ import annotations

import numpy as np
import torch

from lightloom.torch.server_memory import Octets


def as_octets(tensor: torch.Tensor) -> Octets:
    """The bytes of a contiguous tensor of the host, in the same memory."""
    if tensor.numel() == 0:
        return np.empty(0, np.uint8)
    octets: Octets = tensor.reshape(-1).view(torch.uint8).numpy()
    return octets
