"""What is simulated of a collective: which one, among which GPUs, on which fabrics."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from lightloom.inputs.sizes import Size
from lightloom.inputs.strict import Name, Strict, Whole
from lightloom.study.compare.scenario import ClusterOptions, DemandOptions, Scenario

CollectiveName = Literal["all-to-all", "all-reduce", "all-gather", "reduce-scatter"]


class CollectiveScenario(Strict):
    """A collective, the GPUs that take part, and the fabrics between them."""

    collective: CollectiveName = Field(description="Which collective.")
    gpus: Annotated[Whole, Field(le=1_000_000)] = Field(description="Number of GPUs of the job.")
    group_gpus: Whole | None = Field(
        None,
        description="GPUs of one collective; groups of consecutive GPUs run it at the same time;"
        " by default all, or as many as the model has experts.",
    )
    size_bytes: tuple[Annotated[Size, Field(ge=1)], ...] = Field(
        (), description="Buffer of each GPU, its own share included; one or several sizes."
    )
    model: Name | None = Field(
        None,
        description="Model of whose MoE layer dispatch and combine are simulated, in place of"
        " sizes; its element bytes, experts and dispatcher are as published.",
    )
    tokens: Whole | None = Field(None, description="Tokens per EP rank and micro-batch.")
    fabrics: tuple[Name, ...] = Field(
        Scenario.model_fields["fabrics"].default,
        description=Scenario.model_fields["fabrics"].description,
    )
    fabric_options: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Options of each fabric by its name in 'fabrics'."
    )
    cluster: ClusterOptions = Field(description="GPUs, servers and links.")
    demand: DemandOptions = Field(DemandOptions(), description="Who sends how many tokens to whom.")
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] = Field(
        0, description="Seed of the random numbers; the first one where several are used."
    )

    @model_validator(mode="after")
    def _sizes_or_a_model(self) -> Self:
        if bool(self.size_bytes) == (self.model is not None):
            raise ValueError(
                "expected either sizes with --bytes (such as 64MB), or a layer with --model"
            )
        if self.tokens is not None and self.model is None:
            raise ValueError("tokens are of a layer: give --model, or leave --tokens out")
        if self.collective != "all-to-all":
            if self.model is not None:
                raise ValueError(f"a layer has all-to-alls, no {self.collective}; give --bytes")
            if self.demand != DemandOptions():
                raise ValueError("the demand is that of an all-to-all; leave it out")
        if 1 in (self.gpus, self.group_gpus):
            raise ValueError("a collective is among two GPUs or more")
        if self.group_gpus is not None and self.gpus % self.group_gpus:
            raise ValueError(f"{self.gpus} GPUs do not divide into groups of {self.group_gpus}")
        return self
