"""From a parsed ``config.json`` to a :class:`Model`: which family, which keys, what is refused.

``architectures`` decides the family, else ``model_type``: published files contradict themselves.
The text model of a multimodal configuration is read, wherever it is nested. A key that the family
does not read must be known to change no shape (``config_keys``), or the configuration is refused by
name, so that no shape is guessed.
"""

from __future__ import annotations

from dataclasses import replace

from lightloom import plugins
from lightloom.errors import ModelError, did_you_mean, echo
from lightloom.inputs.strict import check
from lightloom.models.config_file import Config
from lightloom.models.config_keys import ALIASES, IGNORED, NEUTRAL, is_neutral
from lightloom.models.families import FAMILIES
from lightloom.models.family import Family
from lightloom.models.model import Model


def model_from_config(config: Config, name: str, where: str) -> Model:
    """Map a parsed configuration to a shape.

    Parameters
    ----------
    config
        The keys and values of a ``config.json``.
    name
        Name of the model.
    where
        Where the configuration comes from, for messages.

    Raises
    ------
    ModelError
        If the family is outside the list, a key is missing or out of bounds, keys contradict each
        other, or a key may change the shape in a way that is not known here.
    """
    config, left_out = _text_model(config, where)
    family, notes = _choose_family(config, where)
    config = _flattened(config, family, where)
    values, written = _canonical(config, family, where)
    _refuse_unknown(values, written, family, where)
    _refuse_missing(values, family, where)
    read = {key: value for key, value in values.items() if key in family.model_fields}
    checked = check(family, read, where, lambda key: _as_written(key, written))
    model = replace(
        checked.with_windows(checked.to_model(name)),
        active_embeddings=family.active_embeddings,
        active_router=family.active_router,
    )
    positions = values.get("max_position_embeddings")
    if isinstance(positions, int) and 0 < positions < 1 << 40:
        model = replace(model, max_positions=positions)
    elif model.learned_positions:
        model = replace(model, max_positions=model.learned_positions)
    return _without_unused(model, notes + tuple(note for note in left_out if note not in notes))


#: where multimodal files keep their text model, and their other models
_TEXT_TABLES = (
    "text_config",
    "language_config",
    "llm_config",
    "language_model_config",
    "thinker_config",
)
_ENCODERS = {"vision_config": "vision", "visual_config": "vision", "audio_config": "audio"}


def _text_model(config: Config, where: str) -> tuple[Config, tuple[str, ...]]:
    """The configuration of the text model that a multimodal one wraps, and what is left out.

    A file without such a table is its own text model. The names of the wrapper count where the
    text model has none, and so does whether it ties its tables.
    """
    left_out: dict[str, None] = {}
    while True:
        for key, kind in _ENCODERS.items():
            if config.get(key) is not None:
                left_out[f"{kind} encoder left out: text only"] = None
        table = next((name for name in _TEXT_TABLES if config.get(name) is not None), None)
        if table is None or "num_hidden_layers" in config:
            return config, tuple(left_out)
        inner = config[table]
        if not isinstance(inner, dict):
            raise ModelError(f"{where}: {table} is {echo(inner)}; expected a table of keys")
        outer = ["tie_word_embeddings"]
        if "model_type" not in inner and not inner.get("architectures"):
            outer += ["architectures", "model_type"]
        config = {key: config[key] for key in outer if key in config} | inner


#: what to do with a model of no known family
_INSTEAD = "describe its layers in a file like that of 'lightloom example model'"


def _choose_family(config: Config, where: str) -> tuple[type[Family], tuple[str, ...]]:
    """Family of a configuration; ``architectures`` beats ``model_type``."""
    model_type = config.get("model_type")
    if model_type is not None and not isinstance(model_type, str):
        raise ModelError(f"{where}: model_type is {echo(model_type)}; expected text")
    architectures = config.get("architectures")
    if architectures is None or not isinstance(architectures, list):
        if architectures is not None:
            raise _not_one_name(architectures, where)
        if model_type is None:
            raise ModelError(
                f"{where} has neither architectures nor model_type; "
                "expected a model's config.json with one of them"
            )
        for family in FAMILIES:
            if model_type in (family.name, *family.model_types):
                return family, ()
        if model_type in plugins.FAMILIES.installed():
            return _installed_family(model_type), ()
        names = [name for family in FAMILIES for name in (family.name, *family.model_types)]
        raise ModelError(
            f"{where}: model_type {echo(model_type)} is not supported"
            f"{did_you_mean(model_type[:60], names)}; {_INSTEAD}"
        )
    if len(architectures) != 1 or not isinstance(architectures[0], str):
        raise _not_one_name(architectures, where)
    name = architectures[0]
    for family in FAMILIES:
        if name in family.architectures:
            if model_type in (None, family.name, *family.model_types):
                return family, ()
            return family, (
                f"architectures says {family.name} and is used, model_type {echo(model_type)}",
            )
    if name in plugins.FAMILIES.installed():
        return _installed_family(name), ()
    of_type = f" (model_type {echo(model_type)})" if model_type is not None else ""
    names = [architecture for family in FAMILIES for architecture in family.architectures]
    raise ModelError(
        f"{where}: architecture {echo(name)}{of_type} is not supported"
        f"{did_you_mean(name[:60], names)}; {_INSTEAD}"
    )


def _installed_family(name: str) -> type[Family]:
    """The family that a package has for an architecture or a model type."""
    family = plugins.FAMILIES.load(name)
    if not (isinstance(family, type) and issubclass(family, Family)):
        raise ModelError(f"family '{name}': expected a class based on lightloom.models.Family")
    return family


def _not_one_name(architectures: object, where: str) -> ModelError:
    return ModelError(
        f"{where}: architectures is {echo(architectures)}; expected a list of one name"
    )


def _flattened(config: Config, family: type[Family], where: str) -> Config:
    """Configuration with the keys of its nested tables among the others, which they beat."""
    flat = {key: value for key, value in config.items() if key not in family.nested}
    for table in family.nested:
        keys = config.get(table)
        if keys is not None and not isinstance(keys, dict):
            raise ModelError(f"{where}: {table} is {echo(keys)}; expected a table of keys")
        flat.update(keys or {})
    return flat


def _aliases(family: type[Family]) -> dict[str, tuple[str, ...]]:
    """Names of each canonical key: those that all families' files have, and the family's own."""
    keys = {**ALIASES, **family.aliases}
    return {key: (*ALIASES.get(key, ()), *family.aliases.get(key, ())) for key in keys}


def _canonical(config: Config, family: type[Family], where: str) -> tuple[Config, dict[str, str]]:
    """Configuration under canonical keys, and the key that each was written as."""
    names = {alias: key for key, aliases in _aliases(family).items() for alias in aliases}
    values: Config = {}
    written: dict[str, str] = {}
    for key, value in config.items():
        canonical = names.get(key, key)
        if canonical in values and values[canonical] != value:
            raise ModelError(
                f"{where}: {written[canonical]} is {echo(values[canonical])} but {key} is "
                f"{echo(value)}; both name the same thing, keep one"
            )
        values[canonical] = value
        written[canonical] = key
    return values, written


def _refuse_unknown(
    values: Config, written: dict[str, str], family: type[Family], where: str
) -> None:
    """Refuse, by name, a key that may change the shape and that the family does not read."""
    fields = set(family.model_fields)
    for key, value in values.items():
        if key in fields or key in family.unused or is_neutral(key, value):
            continue
        shown = f"{echo(written[key])} = {echo(value)}"
        if key in NEUTRAL or any(key in other.model_fields for other in FAMILIES):
            raise ModelError(f"{where}: {shown} is not part of the shape of {family.name} models")
        aliases = _aliases(family)
        names = fields | IGNORED | {alias for key in fields for alias in aliases.get(key, ())}
        raise ModelError(
            f"{where}: {shown} is an unknown key that may change the shape of the model"
            f"{did_you_mean(key[:60], names)}; remove it if it does not"
        )


def _refuse_missing(values: Config, family: type[Family], where: str) -> None:
    for key, field in family.model_fields.items():
        if field.is_required() and key not in values:
            aliases = family.aliases.get(key, ALIASES.get(key, ()))
            others = "".join(f" or {alias}" for alias in aliases)
            raise ModelError(
                f"{where}: {key}{others} is missing; "
                f"the config.json of a {family.name} model has it"
            )


def _as_written(key: str, written: dict[str, str]) -> str:
    """A canonical key, perhaps with the place in its list, as the file has it."""
    name, _, place = key.partition(".")
    return written.get(name, name) + (f"[{place}]" if place else "")


def _without_unused(model: Model, notes: tuple[str, ...]) -> Model:
    """Set to 0 what no layer of the model uses, so that equal shapes compare equal."""
    model = replace(model, notes=notes + model.notes)
    if len(model.attentions) == 1:
        model = replace(model, attention=next(iter(model.attentions)), attention_by_layer=())
    if all(model.moe_layers):
        return replace(model, ffn_size=0, ffn_bias=False)
    if any(model.moe_layers):
        return model
    return replace(
        model,
        num_experts=0,
        experts_per_token=0,
        expert_ffn_size=0,
        shared_expert_ffn_size=0,
        shared_expert_gate=False,
        router_bias=False,
        expert_bias=False,
        num_groups=1,
        top_groups=1,
    )
