"""What a comparison is about: model, cluster, plan, demand, fabrics, prices.

One strict description serves the command line, ``lightloom run study.toml`` and Python. Every
field has a unit in its name; text may carry its own unit. Unknown keys are refused with a
suggestion. Paths in a study are relative to the folder of its file, so that a study and what it
needs can be moved together and run from anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    field_validator,
    model_validator,
)
from pydantic_core import core_schema

from lightloom.demand.imbalance import DEFAULT_IMBALANCE, IMBALANCES, DemandName, parse_demand
from lightloom.errors import InputError
from lightloom.hardware.gpus import gpu_names, load_gpu
from lightloom.inputs.arguments import path_of
from lightloom.inputs.fields import Choices
from lightloom.inputs.formats import read_toml
from lightloom.inputs.sizes import QueueSize, TokenCount, whole_bytes
from lightloom.inputs.strict import (
    File,
    Name,
    Number,
    Strict,
    Switch,
    Whole,
    check,
    quantity,
)
from lightloom.practice import (
    ActivationCache,
    AllToAllOverlap,
    AttentionKernels,
    Casts,
    ContextParallel,
    Dispatcher,
    ExpertProducts,
    Permutation,
    PipelineSchedule,
    PlanStrategy,
    Precision,
    Priorities,
    Recompute,
    Sharded,
    StatePrecision,
    Synchronization,
)
from lightloom.schedule.named_sets import choices

#: phases to simulate of each purpose and fabric at most
MOST_PHASES = 10**9


def _regimes() -> Sequence[str]:
    from lightloom.demand.regime import REGIMES

    return REGIMES


def _imbalances() -> Sequence[str]:
    return tuple(IMBALANCES)


def _phases(value: Any) -> Any:
    """Read how much is simulated as packets; pydantic makes a message of its ``ValueError``."""
    if value in {"whole", "all"} or value is None:
        return value
    count = int(value) if isinstance(value, str) and value.isdecimal() else value
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST_PHASES:
        raise ValueError("expected whole, all or a number of phases from 1 on")
    return count


def _transports() -> Sequence[str]:
    return tuple(choices("transport"))


@dataclass(frozen=True)
class FabricChoice:
    """A name or a file of a fabric, a table of its kind and options, or the fabric itself.

    Results record a fabric that was given as an object by such a table.
    """

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Return the schema of a name that lets tables and fabrics in."""

        def read(value: Any, check_name: Callable[[Any], str]) -> Any:
            from lightloom.fabric.read import check_fabric, fabric_of

            if isinstance(value, str):
                return check_name(value)
            if isinstance(value, Mapping):
                return fabric_of(value)
            return check_fabric(value, "fabrics")

        return core_schema.no_info_wrap_validator_function(
            read,
            handler(source),
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda value: value if isinstance(value, str) else value.parameters()
            ),
        )


ElementBytes = Annotated[Number, Field(gt=0, le=8)]


class PlanOptions(Strict):
    """Parallelism; what is absent comes from the model's published plan or from a search."""

    source: Literal["published", "search"] | None = Field(
        None,
        description="Where the plan comes from: the model's publication, or a search for the"
        " shortest step; published where there is one for the GPUs.",
    )
    tp: Whole | None = Field(None, description="Tensor-parallel degree.")
    pp: Whole | None = Field(None, description="Number of pipeline stages.")
    dp: Whole | None = Field(
        None,
        description="Copies of each expert; dense layers have dp x ep copies, Megatron's DP.",
    )
    ep: Whole | None = Field(None, description="Expert-parallel degree.")
    etp: Whole | None = Field(
        None, description="Expert tensor-parallel degree, with expert mode 'folded'."
    )
    cp: Whole | None = Field(None, description="Context-parallel degree.")
    context_parallel: ContextParallel | None = Field(
        None,
        description="How GPUs that share a sequence compute its attention: keys and values go "
        "around a ring (by default), or all-to-alls divide the heads (Ulysses).",
    )
    vpp: Whole | None = Field(
        None, description="Model chunks per pipeline stage; above 1 the schedule is interleaved."
    )
    micro_batches: Whole | None = Field(
        None, description="Micro-batches per step and pipeline; 4 x pp by default."
    )
    micro_batch_size: Whole | None = Field(
        None, description="Sequences per micro-batch of one dense data-parallel rank."
    )
    global_batch_size: Whole | None = Field(
        None,
        description="Sequences of a step, in place of micro-batches; one for all numbers of GPUs is"
        " strong scaling, one for each weak scaling.",
    )
    seq_len: TokenCount | None = Field(
        None, description="Tokens per sequence, such as 8192, 128K or 1M (of 1,024 and 1,048,576)."
    )
    zero1: Switch | None = Field(
        None, description="Shard the optimizer states over the data-parallel ranks (ZeRO-1)."
    )
    expert_mode: Literal["axis", "folded"] | None = Field(
        None, description="Whether EP is an axis of its own or is folded into DP."
    )
    #: in the order in which a token passes the virtual stages
    pp_layout: tuple[Annotated[int, Field(strict=True, ge=0, le=10**6)], ...] | None = Field(
        None,
        description="Layers of each virtual stage, such as 16,15,15,15; balanced by default.",
    )
    mtp: Whole | None = Field(
        None,
        description="Modules of multi-token prediction that are trained, as layers after the last "
        "one; none by default.",
    )
    schedule: PipelineSchedule | None = Field(
        None, description="Order of the passes of the pipeline; 1f1b unless published otherwise."
    )
    overlap_all_to_all: AllToAllOverlap | None = Field(
        None,
        description="What hides the all-to-alls: experts on other chunks of the tokens, or the "
        "pass of another micro-batch.",
    )
    overlap_chunks: Whole | None = Field(
        None, description="Chunks of the tokens, with overlap-all-to-all 'chunks'; 4 by default."
    )
    strategy: PlanStrategy | None = Field(
        None,
        description="How copies of tokens get to experts that TP ranks share: each sends its part, "
        "which the receivers gather (O1, by default), everything (baseline), in chunks (O2 to O4), "
        "or as the planner finds fastest for each layer (auto, which tries the others as well).",
    )
    strategy_chunks: Annotated[Whole, Field(le=64)] | None = Field(
        None, description="Chunks of O2 to O4; by default as many as the planner finds fastest."
    )
    overlap_shared_experts: Switch | None = Field(
        None, description="Run shared experts during dispatch and combine."
    )
    overlap_tp: Switch | None = Field(
        None, description="Hide TP collectives behind the matrix products next to them."
    )
    communication_sms: Annotated[int, Field(strict=True, ge=0, le=1000)] | None = Field(
        None,
        description="Multiprocessors of a GPU that communication occupies while computation "
        "overlaps it.",
    )
    overlap_gradients: Switch | None = Field(
        None, description="Reduce gradients during the backward pass; on by default."
    )
    overlap_parameters: Switch | None = Field(
        None,
        description="Gather parameters (ZeRO-1) during the forward pass; on by default.",
    )
    overlap_pipeline: Switch | None = Field(
        None,
        description="Compute while pipeline messages are on their way; on by default. Off, 1F1B "
        "waits for them.",
    )

    @property
    def degrees(self) -> dict[str, Any]:
        """The fields of the plan itself that are given, and the sequences of a step."""
        return self.model_dump(exclude_none=True, exclude={"source", "mtp"})

    @model_validator(mode="after")
    def _one_batch(self) -> Self:
        if self.micro_batches is not None and self.global_batch_size is not None:
            raise ValueError("micro_batches and global_batch_size are both given; leave one out")
        return self


class DemandOptions(Strict):
    """Who sends how many tokens to whom: how balanced the gate is, or a file."""

    source: Annotated[Name | Number, Choices(_imbalances)] | None = Field(
        None,
        description="Load of the experts, as published by default: {choices}, X (busiest rank / "
        "mean), a regime or file.",
    )
    resample: Switch = Field(
        False,
        description="Draw the tokens of a routing log with replacement, for a job larger than it.",
    )
    scale: Switch = Field(
        False, description="Scale a token matrix to the tokens per rank of the job."
    )
    capacity_factor: Annotated[Number, Field(gt=0, le=1e6)] | None = Field(
        None,
        description="Copies beyond this multiple of an expert's even share of each source rank "
        "are dropped; none by default.",
    )
    trained_steps: Annotated[int, Field(strict=True, ge=0, le=2**20 - 1)] = Field(
        0,
        description="Steps for which a drawn gate was trained before the first one that is"
        " simulated; regime learned is most uneven at 0.",
    )
    dispatcher: Dispatcher | None = Field(
        None,
        description="What sends tokens to their experts: alltoall, of a collective library, or"
        " flex, kernels that send one copy to each server (DeepEP, HybridEP); as published, or"
        " flex where routing is limited to some servers.",
    )
    deduplicate: Switch | None = Field(
        None, description="Send one copy of a token to each destination server."
    )
    dispatch_element_bytes: ElementBytes | None = Field(
        None,
        description="Bytes per element of the dispatch all-to-all: 1 for FP8, 2 for BF16; as "
        "published, or 2.",
    )
    combine_element_bytes: ElementBytes | None = Field(
        None, description="Bytes per element of the combine all-to-all."
    )
    dispatch_gradient_element_bytes: ElementBytes | None = Field(
        None,
        description="Bytes per element of the gradients of dispatched tokens, which experts send "
        "back.",
    )
    combine_gradient_element_bytes: ElementBytes | None = Field(
        None,
        description="Bytes per element of the gradients of combined tokens, which go to experts.",
    )

    @model_validator(mode="after")
    def _known_demand(self) -> Self:
        self.name  # noqa: B018 - refuses numbers below 1
        return self

    @property
    def name(self) -> DemandName:
        """The one value that describes the demand: an imbalance, a regime or a path."""
        return DEFAULT_IMBALANCE if self.source is None else parse_demand(self.source)


class ComputeOptions(Strict):
    """How GPUs compute: number formats, kernels and their launches."""

    precision: Precision | None = Field(
        None,
        description="Format of the matrix products of linear layers and experts, as published where"
        " the GPU has it, or BF16; attention scores, router, embedding and output stay BF16.",
    )
    permutation: Permutation = Field(
        "fused", description="Whether one kernel permutes the copies of tokens, or several do."
    )
    cuda_graphs: Switch = Field(
        False,
        description="Launch kernels as CUDA graphs, all but those of routed experts: the host does "
        "not slow short kernels down.",
    )
    expert_products: ExpertProducts = Field(
        "sequential",
        description="Products of the experts of a GPU: one kernel for all, or a kernel of each, as"
        " in Transformer Engine.",
    )
    attention_kernels: AttentionKernels = Field(
        "fastest",
        description="Kernels of attention: the fastest in BF16 that were measured on the GPU,"
        " FlashAttention 2 as PyTorch takes, cuDNN's in FP8, or unfused, of all scores.",
    )
    casts: Casts = Field(
        "fused",
        description="How FP8 operands are cast: fused with norms (delayed scales), with current or"
        " block scales, as Transformer Engine does, or in separate passes (torchao).",
    )
    state_precision: StatePrecision | None = Field(
        None,
        description="Format of the moments of Adam, as published or FP32; master weights are FP32.",
    )


class KeptOptions(Strict):
    """What GPUs keep of a job, where its framework does not do as Megatron-Core by default."""

    sharded: Sharded = Field(
        "states",
        description="What the data-parallel ranks share out, with ZeRO: states of the optimizer"
        " (ZeRO-1), gradients (ZeRO-2, reduced for each micro-batch), parameters (ZeRO-3, FSDP2,"
        " gathered by each pass).",
    )
    activation_cache: ActivationCache | None = Field(
        None,
        description="Formats of kept activations, as published or those of the operators; fp8:"
        " inputs of activation functions in FP8, results of attention in 12 bits.",
    )
    keeps_outputs: Switch = Field(
        False,
        description="Keep the outputs of experts at their source, as Megatron-Core before 0.12.",
    )
    logit_bytes: Annotated[Number, Field(gt=0, le=16)] = Field(
        8.0,
        description="Bytes per logit and its gradient; 2 with the loss of Transformer Engine.",
    )


class ClusterOptions(Strict):
    """GPUs, servers and links; a fabric's own file may say otherwise for that fabric."""

    gpu: Annotated[Name, Choices(gpu_names)] = Field(
        "a100", description="Type of the GPUs: {choices}, or a TOML file of one."
    )
    gpus_per_server: Annotated[Whole, Field(le=1024)] | None = Field(
        None,
        description="GPUs that share NVLink, in a server or a rack; by default as the GPU comes: 72"
        " of gb200 and gb300, 8 of others.",
    )
    nics_per_server: Annotated[Whole, Field(le=1024)] | None = Field(
        None, description="NICs of a server; by default as the GPU comes, one for each GPU."
    )
    spare_gpus_per_server: Annotated[int, Field(strict=True, ge=0, lt=1024)] | None = Field(
        None,
        description="GPUs of a server that the job leaves idle; none, or as few (8 of 72) as make"
        " its groups divide servers.",
    )
    rate_gbps: Annotated[
        float, quantity("gigabit / second"), Field(gt=0, le=1e5, examples=['"400 Gb/s"'])
    ] = Field(description="Rate of one NIC and link, per direction.")
    link_delay_s: Annotated[float, quantity("second"), Field(ge=0, le=1)] = Field(
        1e-6, description="Propagation delay of one link."
    )
    profile: File | None = Field(
        None, description="Measured operator efficiencies (TOML or CSV) of the GPUs."
    )

    @property
    def used_gpus_per_server(self) -> int:
        """GPUs of a server that the job uses."""
        size = self.gpus_per_server or load_gpu(self.gpu).gpus_per_server
        return size - (self.spare_gpus_per_server or 0)

    @model_validator(mode="after")
    def _some_used(self) -> Self:
        if self.gpus_per_server and self.used_gpus_per_server < 1:
            raise ValueError(
                f"spare_gpus_per_server = {self.spare_gpus_per_server} leaves no GPU of a server's "
                f"{self.gpus_per_server}; expected fewer"
            )
        return self


class OrderOptions(Strict):
    """How the kinds of traffic of a step share links."""

    priorities: Priorities = Field(
        "none",
        description="Which traffic goes first on links: none; monta: experts, pipeline, context"
        " parallelism, gradients; or pipeline: the same with the pipeline first.",
    )
    early_gradients: Switch = Field(
        False,
        description="Reduce the gradients of experts alongside the all-to-all that ends their"
        " backward pass, not only after the layer.",
    )


class ProgramOptions(Strict):
    """How a program that is known by name is run."""

    images_per_gpu: Annotated[Whole, Field(le=65_536)] = Field(
        32, description="Images that each GPU trains in a step."
    )
    synchronization: Synchronization = Field(
        "ring",
        description="What adds up gradients: a ring all-reduce, rank 0 as a parameter server, or"
        " all ranks, each the server of an equal share.",
    )


class PacketOptions(Strict):
    """How packets are sent where the network is simulated as packets, and how much of it is."""

    transport: Annotated[Name, Choices(_transports)] = Field(
        "dctcp", description="Transport protocol: {choices}."
    )
    mtu_bytes: Annotated[int, BeforeValidator(whole_bytes), Field(ge=1, le=65_000)] | None = Field(
        None, description="Payload of a full packet; by default the transport's."
    )
    queue_bytes: QueueSize | None = Field(
        None,
        description="Capacity of a port's queue, or 'unlimited'; by default the transport's.",
    )
    phases: Annotated[Literal["whole", "all"] | int | None, BeforeValidator(_phases)] = Field(
        None,
        description="Whole steps as packets, or distinct phases alone that stretch flows: all, or N"
        " per purpose and fabric; by default whole steps up to 600 million packet-hops to simulate,"
        " else all phases.",
    )
    repeats: Literal["once", "each", "together"] = Field(
        "once",
        description="How often what repeats in a whole step is simulated: once; each time, with the"
        " same result; or together, all flows in one network.",
    )
    plane_failure: Annotated[str, Field(max_length=60)] | None = Field(
        None,
        description="Plane that fails during a step, of a fabric whose NICs spray packets over"
        " several, when, and for how long, such as '1@2ms+5ms' or '1@2ms' for good.",
    )
    record: File | None = Field(
        None,
        description="Folder for the flows of each fabric's first step, and what each waited for, "
        "which 'lightloom packets --scenario FOLDER/FABRIC/scenario.toml' repeats.",
    )
    full: Switch = Field(
        False, description="Continue even if the simulation will take over ten minutes."
    )


class Scenario(Strict):
    """One comparison of fabrics for one training job.

    Examples
    --------
    >>> import lightloom
    >>> lightloom.Scenario(model="mixtral-8x7b", gpus=128, cluster={"rate_gbps": "400 Gb/s"}).seeds
    3
    """

    model: Annotated[Name, Field(examples=['"mixtral-8x22b"'])] | None = Field(
        None, description="A name of 'lightloom models', or a config.json."
    )
    model_shape: dict[str, Any] | None = Field(
        None, description="Shape of the model, as results record it, in place of its file."
    )
    workload: File | None = Field(
        None,
        description="Trace of a program or table of phases, in place of a model.",
    )
    program: ProgramOptions = Field(
        ProgramOptions(), description="How a program that is known by name is run."
    )
    #: 0 until a trace has said how many
    gpus: Annotated[Whole, Field(le=1_000_000, examples=[1024])] = Field(
        default_factory=int, description="Number of GPUs of the job."
    )
    step_tokens: Whole | None = Field(
        None, description="Tokens that a step of a trace trains, for its throughput."
    )
    fabrics: tuple[Annotated[Name, FabricChoice()], ...] = Field(
        ("fat-tree", "oversub", "rail", "topoopt", "mixnet"),
        description="Names from 'lightloom fabrics', 'all', or custom TOML files.",
    )
    designs: Literal["default", "tuned", "equal-cost"] = Field(
        "default",
        description="Fabrics as their options are; tuned, to train the most per dollar of the"
        " cluster; or with links of the rate at which each network costs what the first costs.",
    )
    cluster: ClusterOptions = Field(
        examples=['{ rate_gbps = "400 Gb/s" }'], description="GPUs, servers and links."
    )
    plan: PlanOptions = Field(PlanOptions(), description="The parallelism plan.")
    demand: DemandOptions = Field(DemandOptions(), description="Who sends how many tokens to whom.")
    fabric_options: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="Options of each fabric by its name in 'fabrics'; 'all' is for every fabric.",
    )
    counting: dict[str, Any] = Field(
        default_factory=dict, description="How the parts of a fabric are counted for its cost."
    )
    steps: Annotated[Whole, Field(le=10_000)] = Field(
        1, description="Number of training steps; the demand drifts from step to step."
    )
    seeds: Annotated[Whole, Field(le=10_000)] = Field(
        3,
        description="Number of random demands, each simulated on every fabric; of a long step those"
        " after the first in part.",
    )
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] = Field(
        0, description="Seed of the random numbers; the first one where several are used."
    )
    #: for the interval of step times
    compute_spread: Annotated[Number, Field(ge=0, lt=1)] = Field(
        0.1, description="Relative uncertainty of compute times, as a share between 0 and 1."
    )
    compute: ComputeOptions = Field(
        ComputeOptions(), description="Number formats, kernels and their launches."
    )
    recompute: Literal["auto", Recompute] = Field(
        "auto",
        description="Activations recomputed in the backward pass; by default what was published,"
        " or the least with which the plan fits the memory; selective: norms, activation functions"
        " and the up-projections of latent attention; products: as torchtitan, every second"
        " product, too.",
    )
    memory: KeptOptions = Field(KeptOptions(), description="What GPUs keep of a job.")
    memory_check: Switch = Field(
        True, description="Refuse a plan that does not fit the memory of the GPUs."
    )
    traffic: OrderOptions = Field(
        OrderOptions(), description="How the kinds of traffic of a step share links."
    )
    gradient_bytes: ElementBytes | None = Field(
        None, description="Bytes per element in which gradients are reduced; as published, or 4."
    )
    parameter_bytes: ElementBytes | None = Field(
        None,
        description="Bytes per element of parameters gathered by ZeRO-1; as published, or 2.",
    )
    network: Literal["flow", "packet"] = Field(
        "flow", description="How traffic on the network is simulated."
    )
    packets: PacketOptions | None = Field(
        None, description="How packets are simulated, with network = 'packet'."
    )
    predictor: Name | None = Field(
        None,
        description="Predictor of the demand that circuits are chosen for before it is known; names"
        " from 'lightloom predict --help'.",
    )
    policies: Switch = Field(
        True, description="Try every reconfiguration policy on the first sample."
    )
    imbalances: Switch = Field(
        True,
        description="Simulate balanced and skewed load of the experts in addition, and that of a"
        " gate early and late in its training, a sample each.",
    )
    whole_steps: Switch = Field(
        False,
        description="Simulate whole steps of every seed, compute speed and load; by default only"
        " the first sample of a long step (5 million layers x micro-batches x GPUs) is whole, and"
        " of one of 20 million a few replicas stand for all.",
    )
    fail: tuple[Name, ...] = Field(
        (),
        description="Parts whose failures are simulated on the first sample, one at a time, on all"
        " fabrics that have them: server:4, gpu:17, nic:2/1 (server/NIC), eps:0/1, tor:0, ocs:0 or"
        " plane:0.",
    )
    prices: File | None = Field(
        None, description="Price list (TOML) that replaces the built-in one."
    )
    power: File | None = Field(
        None, description="Power list (TOML) that replaces the built-in one."
    )
    price_list: dict[str, Any] | None = Field(
        None, description="Content of 'prices', as results record it."
    )
    power_list: dict[str, Any] | None = Field(
        None, description="Content of 'power', as results record it."
    )

    @field_validator("fabrics")
    @classmethod
    def _named_fabrics(cls, names: tuple[object, ...]) -> tuple[object, ...]:
        from lightloom.fabric.read import fabric_names

        return fabric_names(names)

    @model_validator(mode="after")
    def _one_job(self) -> Self:
        if (self.model is None) == (self.workload is None):
            jobs = "no job is" if self.model is None else "two jobs are"
            raise ValueError(
                f"{jobs} given: expected a model (a name from 'lightloom models', or the path of "
                "a config.json) or a workload (the path of a trace)"
            )
        if self.model is not None and not self.gpus:
            raise ValueError("gpus is missing; add it, such as gpus = 1024")
        if self.model is not None and self.step_tokens is not None:
            raise ValueError("step_tokens is for a trace: a model's plan says it; leave it out")
        return self

    @model_validator(mode="after")
    def _shared_out(self) -> Self:
        """Refuse to say what ranks share out where they share nothing."""
        said, sharded = self.memory.model_fields_set, self.memory.sharded
        # results say every option, also those that nobody gave
        is_alone = "sharded" in said and said < KeptOptions.model_fields.keys()
        if self.plan.zero1 is False and (is_alone or sharded != "states"):
            raise ValueError(
                f"memory.sharded = {sharded} with plan.zero1 = off: without ZeRO the ranks share"
                " nothing out; leave one of them out"
            )
        return self

    @model_validator(mode="after")
    def _known_options(self) -> Self:
        """Refuse what no fabric reads at once; a fabric's own file is read when it is compared."""
        from lightloom.fabric.read import fabric_kinds, load_fabric

        kinds = fabric_kinds()
        named = [name for name in (*self.fabrics, *self.fabric_options) if name in kinds]
        for name in dict.fromkeys(named if self.fabric_options else ()):
            shared = self.fabric_options.get("all", {})
            load_fabric(name, {**shared, **self.fabric_options.get(name, {})})
        return self

    def with_imbalance(self, imbalance: DemandName) -> Scenario:
        """Return the same comparison with another balance of the gate.

        Parameters
        ----------
        imbalance
            As ``demand.source``: ``balanced``, ``skewed``, another name, a number or a path.

        Examples
        --------
        >>> import lightloom
        >>> job = {"model": "mixtral-8x7b", "gpus": 128, "cluster": {"rate_gbps": 400}}
        >>> scenario = lightloom.Scenario(**job)
        >>> scenario.with_imbalance("balanced").demand.name
        'balanced'
        """
        values = self.demand.model_dump(exclude_unset=True, exclude={"source", "resample", "scale"})
        demand = DemandOptions(**{**values, "source": imbalance})
        return self.model_copy(update={"demand": demand})


def packet_options(scenario: Scenario) -> PacketOptions | None:
    """The options of packets, where the network is simulated as packets.

    Raises
    ------
    InputError
        If they are given for flows, which have none.
    """
    if scenario.network == "packet":
        return scenario.packets or PacketOptions()
    if scenario.packets is not None:
        raise InputError('packets are simulated with network = "packet" alone; add it')
    return None


def load_study(path: Path | str) -> Scenario:
    """Read a study, one strict TOML file; see ``examples/study.toml``.

    Raises
    ------
    InputError
        If the file cannot be read, is no TOML, or has a wrong or unknown key.

    Examples
    --------
    >>> import lightloom
    >>> from pathlib import Path
    >>> lightloom.load_study(Path("examples/study.toml")).model
    'mixtral-8x7b'
    """
    path = path_of(path, "study", "the path of a TOML file")
    return study_of(read_toml(path, "study"), str(path), path.parent)


def study_of(values: Mapping[str, Any], name: str, folder: Path) -> Scenario:
    """The scenario of a study's tables; ``name`` begins messages, paths are below ``folder``.

    Raises
    ------
    InputError
        As :func:`load_study`.
    """
    from lightloom.models import catalog
    from lightloom.models.catalog import hub_repository

    if "sweep" in values:
        raise InputError(f"{name}: has [sweep], many points: run it with lightloom sweep {name}")
    scenario = check(Scenario, values, name)

    def place(path: Path | None) -> Path | None:
        return None if path is None else folder / path

    def text(name: str, names: Any) -> str:
        # what is neither known nor looks like a path stays, so that a misspelt name is called one
        is_path = name not in names and not {"/", "."}.isdisjoint(name)
        return str(folder / name) if is_path else name

    def fabric(name: object) -> object:
        return str(folder / name) if isinstance(name, str) and name.endswith(".toml") else name

    def model(name: str) -> str:
        is_name = hub_repository(name) and not (folder / name).exists()
        return name if is_name else text(name, catalog())

    demands = {*_regimes(), *IMBALANCES}
    source = scenario.demand.source
    demand = {}
    if isinstance(source, str) and isinstance(parse_demand(source), str):
        demand["source"] = text(source, demands)
    return scenario.model_copy(
        update={
            "model": scenario.model and model(scenario.model),
            "workload": place(scenario.workload),
            "fabrics": tuple(fabric(name) for name in scenario.fabrics),
            "fabric_options": {fabric(k): v for k, v in scenario.fabric_options.items()},
            "cluster": scenario.cluster.model_copy(
                update={"profile": place(scenario.cluster.profile)}
            ),
            "demand": scenario.demand.model_copy(update=demand),
            "prices": place(scenario.prices),
            "power": place(scenario.power),
            "packets": scenario.packets
            and scenario.packets.model_copy(update={"record": place(scenario.packets.record)}),
        }
    )
