"""A step of the same job with few layers and micro-batches, for choices that need no more.

All groups of a stage are there, so that as much communication shares the network as in the whole
step, unless there are many replicas: then a few of them, which only share ToRs with the others and
meet them when gradients are reduced. Every layer is a mixture of experts, stages have no chunks,
and the output projection is as much smaller as there are fewer layers. A long pipeline is shorter
where its stages share no servers: they only pass activations on to each other, and the bubble stays
as large a part.
"""

from __future__ import annotations

import dataclasses

from lightloom.models import Model
from lightloom.models.model import NO_ATTENTION
from lightloom.parallel import Plan
from lightloom.study.compare.job import ModelJob

#: MoE layers of a short step, at least
MIN_LAYERS = 8
#: stages of a short step, at most, where they share no servers
MAX_STAGES = 4
#: replicas of the experts of a short step, at least: the first, or the second for replicas that are
#: of a work (layers x micro-batches x GPUs) of the third together; a job with fewer keeps all
MIN_REPLICAS, MIN_LARGE_REPLICAS, LARGE_WORK = 8, 2, 5_000_000
#: the same of a part that only tells how much a very long step changes: its loads and seeds are
#: those of 8 to four digits (``benches/RESULTS.md``)
MIN_PART_REPLICAS = 4


def with_few_stages(job: ModelJob) -> ModelJob:
    """The job with the first stages alone, where they share no servers with the others.

    It is left whole where parts of a fabric have failed, which may be those of any stage.
    """
    plan = job.plan
    stages = min(plan.pp, MAX_STAGES)
    per_stage = plan.gpus // plan.pp
    if not _is_divided(job, per_stage):
        return job
    gpus = per_stage * stages
    # the schedule of chunks and layouts is for the whole pipeline
    few = dataclasses.replace(_short_plan(plan, plan.micro_batches), gpus=gpus, pp=stages)
    return dataclasses.replace(job, plan=few, cluster=dataclasses.replace(job.cluster, gpus=gpus))


def with_few_replicas(job: ModelJob, least: int = MIN_REPLICAS) -> ModelJob:
    """The job with the first replicas of each stage alone, where they share no servers with others.

    Their number is a divisor of all, and so large that the slowest of them is nearly as slow as
    that of all: ``least`` of them, or less if each is large.
    """
    plan = job.plan
    all_of_them = plan.groups_per_stage
    work = job.model.num_layers * plan.micro_batches * plan.gpus // all_of_them
    least = min(max(MIN_LARGE_REPLICAS, -(-LARGE_WORK // work)), least, all_of_them)
    counts = range(least, all_of_them + 1)
    few = next(n for n in counts if all_of_them % n == 0 and plan.dp % (all_of_them // n) == 0)
    times = all_of_them // few
    gpus = plan.gpus // times
    if times == 1 or not _is_divided(job, gpus // plan.pp):
        return job
    fewer = dataclasses.replace(plan, gpus=gpus, dp=plan.dp // times)
    return dataclasses.replace(job, plan=fewer, cluster=dataclasses.replace(job.cluster, gpus=gpus))


def _is_divided(job: ModelJob, per_stage: int) -> bool:
    """Whether so many GPUs of a stage have servers of their own, none of which has failed."""
    sizes = {fabric.adapt(job.cluster).gpus_per_server for fabric in job.fabrics}
    if not job.plan.order.endswith("pp") or any(per_stage % size for size in sizes):
        return False
    return not any(fabric.parameters().get("failed") for fabric in job.fabrics)


def few_layers(model: Model, plan: Plan) -> int:
    """Layers of a short step, all of them MoE layers; 0 if the model has not as many of these."""
    layers = -(-MIN_LAYERS // plan.pp) * plan.pp
    return layers if layers <= model.num_moe_layers else 0


def with_few(job: ModelJob, layers: int, micro_batches: int) -> ModelJob:
    """The job with so many layers, all of them MoE layers, and micro-batches."""
    model = with_layers(job.model, (True,) * layers)
    return dataclasses.replace(job, model=model, plan=_short_plan(job.plan, micro_batches))


def with_layers(model: Model, moe_layers: tuple[bool, ...]) -> Model:
    """These layers, and as much less of a vocabulary, so that the output is no bottleneck.

    Where some layers are an attention or a feed-forward alone, mixtures alone get the attentions
    of the others, so that a layer is a whole one; else they are the last layers of the model.
    """
    count = len(moe_layers)
    vocabulary = max(1, model.vocab_size * count // model.num_layers)
    few = dataclasses.replace(
        model,
        moe_layers=moe_layers,
        vocab_size=vocabulary,
        attention_by_layer=model.attention_by_layer[:count],
        ffn_by_layer=model.ffn_by_layer[:count],
        mtp_layers=0,
    )
    if NO_ATTENTION not in model.attentions:
        return few
    if not all(moe_layers):
        last = model.attention_by_layer[-count:]
        return dataclasses.replace(
            few, attention_by_layer=last, ffn_by_layer=model.ffn_by_layer[-count:]
        )
    mixing = tuple(kind for kind in model.attention_by_layer if kind != NO_ATTENTION)
    whole = (mixing * -(-count // len(mixing)))[:count] if mixing else (NO_ATTENTION,) * count
    return dataclasses.replace(few, attention_by_layer=whole, ffn_by_layer=())


def _short_plan(plan: Plan, micro_batches: int) -> Plan:
    return dataclasses.replace(plan, vpp=1, pp_layout=(), micro_batches=micro_batches)
