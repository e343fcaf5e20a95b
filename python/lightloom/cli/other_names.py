"""What training programs and other simulators call options, for whoever types them here."""

from __future__ import annotations

from collections.abc import Collection

#: names of an option elsewhere (Megatron-Core, DeepSpeed, torchtitan, everyday use), by ours
_OTHERS = {
    "--tp": "tensor-parallel tensor-parallel-size tensor-model-parallel-size tensor-parallelism "
    "tensor-parallel-degree tp-size",
    "--pp": "pipeline-parallel pipeline-parallel-size pipeline-model-parallel-size pp-size "
    "pipeline-parallelism pipeline-parallel-degree pipeline-stages stages",
    "--ep": "expert-parallel expert-parallel-size expert-model-parallel-size ep-size "
    "expert-parallelism expert-parallel-degree moe-expert-parallel-size",
    "--cp": "context-parallel-size context-parallel-degree cp-size",
    "--etp": "expert-tensor-parallel-size expert-tensor-parallel",
    "--dp": "data-parallel data-parallel-size data-parallel-degree dp-size replicas",
    "--vpp": "virtual-pipeline-model-parallel-size virtual-pipeline-parallel interleave "
    "num-virtual-stages-per-pipeline-rank virtual-stages model-chunks",
    "--pp-layout": "pipeline-model-parallel-layout pipeline-layout layers-per-stage",
    "--micro-batch-size": "mbs micro-bs train-micro-batch-size-per-gpu local-batch-size",
    "--micro-batches": "num-microbatches num-micro-batches microbatches grad-accum "
    "gradient-accumulation-steps accumulation-steps",
    "--global-batch-size": "gbs batch-size train-batch-size global-batch",
    "--seq-len": "seq-length sequence-length seqlen max-seq-len context-length",
    "--gpus": "num-gpus n-gpus ngpus world-size gpu-count devices ranks",
    "--gpu": "gpu-type device accelerator",
    "--rate": "bandwidth link-rate link-speed speed nic-rate nic-speed network-bandwidth link-bw",
    "--fabrics": "topology topologies network-topology",
    "--recompute": "recompute-granularity recompute-activations activation-checkpointing "
    "checkpoint-activations",
    "--zero1": "use-distributed-optimizer distributed-optimizer zero zero-stage",
    "--overlap-gradients": "overlap-grad-reduce overlap-gradient-reduce",
    "--overlap-parameters": "overlap-param-gather",
    "--overlap-tp": "tp-comm-overlap",
    "--overlap-all-to-all": "overlap-moe-expert-parallel-comm moe-overlap",
    "--overlap-shared-experts": "moe-shared-expert-overlap",
    "--dispatcher": "moe-token-dispatcher-type token-dispatcher",
    "--capacity-factor": "moe-expert-capacity-factor moe-capacity-factor",
    "--precision": "dtype fp8 bf16 fp8-format fp8-recipe mixed-precision",
    "--demand": "routing skew load-balance gate expert-load routing-log",
    "--fixed": "reconfig-time switching-time switching-delay ocs-delay delay",
    "--when": "reconfigure reconfiguration-policy",
    "--ports": "optical-degree optical-links optical-ports",
    "--timeline": "perfetto chrome-trace",
    "--html": "report page",
    "--hosts": "num-hosts endpoints",
    "--bytes": "size message-size flow-size",
    "--transport": "protocol congestion-control cc",
    "--fan-in": "incast-degree",
    "--servers": "nodes num-servers num-nodes",
}
_OURS = {f"--{other}": ours for ours, others in _OTHERS.items() for other in others.split()}


def ours(option: str, options: Collection[str]) -> str | None:
    """What an option is called here, if a command has it.

    Parameters
    ----------
    option
        As it was typed, with dashes or underscores between its words.
    options
        The options of the command.
    """
    flag = _OURS.get(option.replace("_", "-"))
    return flag if flag in options else None
