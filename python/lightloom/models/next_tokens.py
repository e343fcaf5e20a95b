"""Multi-token prediction: modules that predict the token after the next one.

A module is one more transformer layer, of the kind of the last one, behind a projection of the
hidden state and of the embedding of the next token to the hidden size, with three norms; its
result goes through the model's own output projection (DeepSeek-V3, arXiv 2412.19437, section 2.2).
Table and output projection are shared. Modules are trained with the model and left out of it for
inference, so that a shape has them only where a plan trains them.
"""

from __future__ import annotations

from dataclasses import replace

from lightloom.errors import ModelError
from lightloom.models.model import Model
from lightloom.units import show_things


def with_next_tokens(model: Model, modules: int | None) -> Model:
    """The model with so many modules, as its last layers.

    Raises
    ------
    ModelError
        If its configuration has fewer.
    """
    if not modules or model.mtp_layers:
        return model
    if modules > model.mtp_modules:
        has = show_things(model.mtp_modules, "module") if model.mtp_modules else "no module"
        most = f"give {model.mtp_modules} at most, or leave" if model.mtp_modules else "leave"
        raise ModelError(
            f"plan.mtp = {modules}: {model.name} has {has} of multi-token prediction"
            f" (num_nextn_predict_layers of its configuration); {most} plan.mtp out"
        )
    return replace(
        model,
        moe_layers=model.moe_layers + model.moe_layers[-1:] * modules,
        attention_by_layer=model.attention_by_layer + model.attention_by_layer[-1:] * modules,
        ffn_by_layer=model.ffn_by_layer + model.ffn_by_layer[-1:] * modules,
        mtp_layers=modules,
        notes=tuple(note for note in model.notes if "multi-token prediction" not in note),
    )
