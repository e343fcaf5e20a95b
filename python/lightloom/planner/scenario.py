"""An all-to-all whose strategy is chosen, as options describe it.

What is not given comes from the model, where one is named: hidden size and experts per token.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field

from lightloom.demand.imbalance import DemandName, parse_demand
from lightloom.errors import InputError
from lightloom.hardware.gpus import gpu_names
from lightloom.inputs.fields import Choices
from lightloom.inputs.sizes import TokenCount
from lightloom.inputs.strict import Name, Number, Strict, Whole, comma_list, quantity
from lightloom.models import Model, load_model

#: hidden size, experts per token and bytes of an element where nothing else is said
TOP_K, ELEMENT_BYTES = 2, 2
if TYPE_CHECKING:
    from lightloom.planner.cluster import StrategyCluster

#: most chunks that are tried
MAX_CHUNKS = 1024
#: where nothing else is said: what MoNTA measures
SEQUENCES = tuple(1024 * 2**power for power in range(2, 9))

Degree = Annotated[Whole, Field(le=4096)]


def _chunks(given: object) -> object:
    """A number of chunks, or auto.

    Raises
    ------
    InputError
        If it is neither.
    """
    text = str(given)
    if text == "auto" or (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_CHUNKS):
        return text if text == "auto" else int(text)
    raise InputError(f"--chunks {text}: expected auto, or a number from 1 to {MAX_CHUNKS:,}")


class AllToAllScenario(Strict):
    """Where an all-to-all runs, what it moves, and what is left open."""

    model: Name | None = Field(
        None, description="Model whose hidden size and experts per token are taken."
    )
    cluster: Name | None = Field(
        None, description="Cluster by name (a800x16), or the file of one (TOML)."
    )
    gpu: Annotated[Name, Choices(gpu_names)] = Field(
        "a100", description="Type of the GPUs: {choices}, or a TOML file of one."
    )
    rate_gbps: Annotated[float, quantity("gigabit / second"), Field(gt=0, le=1e5)] | None = Field(
        None, description="Rate of one NIC and link, per direction."
    )
    tp: Degree = Field(8, description="Tensor-parallel degree.")
    ep: Degree = Field(2, description="Expert-parallel degree.")
    seq: Annotated[tuple[TokenCount, ...], BeforeValidator(comma_list), Field(max_length=1000)] = (
        Field(SEQUENCES, description="Tokens of a sequence, such as 8192 or 8K: one or several.")
    )
    micro_batch_size: Whole = Field(
        1, description="Sequences per micro-batch of one dense data-parallel rank."
    )
    hidden: Annotated[Whole, Field(le=10**6)] | None = Field(
        None, description="Number of elements of a token's hidden state."
    )
    top_k: Annotated[Whole, Field(le=1024)] | None = Field(
        None, description="Experts of a token; those of the model by default, 2 without one."
    )
    element_bytes: Annotated[Number, Field(gt=0, le=8)] = Field(
        ELEMENT_BYTES, description="Bytes of an element that is sent."
    )
    padding: Annotated[Number, Field(ge=1, le=100)] = Field(
        1.0,
        description="Bytes that are sent over those of tokens, where buffers are padded.",
    )
    bytes_per_token: Annotated[float, quantity("byte"), Field(gt=0, le=1e9)] | None = Field(
        None, description="Bytes of a token's copies together, in place of the four above."
    )
    demand: Annotated[DemandName, BeforeValidator(parse_demand)] = Field(
        "balanced",
        description="Who sends how much to whom: balanced, the load of the busiest EP rank over "
        "the mean load, or the file of a matrix.",
    )
    chunks: Annotated[Literal["auto"] | int, BeforeValidator(_chunks)] = Field(
        "auto", description="Chunks of O2 to O4, or auto: as many as each is fastest with."
    )
    late_s: Annotated[float, quantity("second"), Field(ge=0, le=60)] = Field(
        0.0, description="How long after the others the last rank begins."
    )

    @property
    def token_bytes(self) -> float:
        """Bytes of all copies of a token.

        Raises
        ------
        InputError
            If neither a model nor a hidden size nor the bytes are given.
        """
        if self.bytes_per_token is not None:
            return self.bytes_per_token
        model = self._model
        hidden = self.hidden or (model and model.expert_hidden)
        if not hidden:
            raise InputError(
                "how many bytes a token has is missing; add --hidden 8192, --bytes-per-token "
                "32768 or a model, such as mixtral-8x7b"
            )
        top_k = self.top_k or (model and model.experts_per_token) or TOP_K
        return hidden * top_k * self.element_bytes * self.padding

    @cached_property
    def _model(self) -> Model | None:
        """The model.

        Raises
        ------
        InputError
            If it is unknown, or has no experts.
        """
        if self.model is None:
            return None
        model = load_model(self.model)
        if not model.num_experts:
            raise InputError(f"{self.model}: has no experts, so no all-to-all among them")
        return model

    @cached_property
    def where(self) -> StrategyCluster:
        """The cluster.

        Raises
        ------
        InputError
            If it is unknown, or neither it nor a rate is given.
        """
        from lightloom.planner.cluster import derived_cluster, load_cluster

        if self.cluster is not None:
            if self.model_fields_set & {"gpu", "rate_gbps"}:
                raise InputError("--cluster has its GPUs and rates: leave --gpu and --rate out")
            return load_cluster(self.cluster)
        if self.rate_gbps is None:
            raise InputError(
                "where it runs is missing; add --cluster a800x16, or --gpu h100 --rate 400"
            )
        return derived_cluster(gpu=self.gpu, rate_gbps=self.rate_gbps, tp=self.tp, ep=self.ep)

    def check_degrees(self) -> None:
        """Refuse degrees that do not fit the cluster or the model.

        Raises
        ------
        InputError
            If TP does not divide a server, EP ranks are fewer than 2, or the GPUs are too few or
            not whole groups.
        """
        where = self.where
        if where.gpus_per_server % self.tp:
            raise InputError(
                f"--tp {self.tp}: expected a divisor of the {where.gpus_per_server} GPUs of a "
                "server, which TP ranks share"
            )
        if self.ep < 2:
            raise InputError("--ep 1: one EP rank sends to nobody; expected 2 or more")
        experts = self._model.num_experts if self._model else 0
        if experts % self.ep:
            raise InputError(
                f"--ep {self.ep}: expected a divisor of the {experts} experts of {self.model}"
            )
        group = self.tp * self.ep
        if where.gpus is not None and where.gpus % group:
            ranks = where.gpus // self.tp
            raise InputError(
                f"--ep {self.ep}: with TP {self.tp} the {where.gpus} GPUs hold {ranks} data-"
                f"parallel ranks; expected a divisor of {ranks}"
            )
