"""Model shapes: a catalog with sources, and any supported Hugging Face ``config.json``.

``model`` is the plain data, ``config_file`` reads untrusted JSON, ``mapping`` and ``families``
turn a configuration into a shape, ``catalog`` loads the package's own configurations through
that same mapping, and ``parameters`` counts. Left out: what changes no weight's shape (positions,
activations, dropout, quantization) and multi-token prediction.
"""

from lightloom.models.catalog import catalog, load_model
from lightloom.models.model import Attention, EmbeddingConvention, Model, PublishedPlan

__all__ = [
    "Attention",
    "EmbeddingConvention",
    "Model",
    "PublishedPlan",
    "catalog",
    "load_model",
]
