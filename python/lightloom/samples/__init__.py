"""Small files to try the commands with; ``lightloom example`` writes them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

from lightloom.errors import InputError, did_you_mean, echo


@dataclass(frozen=True)
class SampleFile:
    """A file that comes with the package."""

    file: str
    summary: str


SAMPLES = {
    "study": SampleFile("study.toml", "a comparison as one file, for lightloom run"),
    "sweep": SampleFile("sweep.toml", "a study at 20 points, for lightloom sweep"),
    "jobs": SampleFile("jobs.toml", "three jobs that share a cluster, for lightloom run"),
    "config": SampleFile("config.json", "the shape of OLMoE-1B-7B, for lightloom compare"),
    "model": SampleFile("model.toml", "a custom model by its shapes"),
    "gpu": SampleFile("gpu.toml", "a custom GPU, for --gpu"),
    "routing": SampleFile("routing.jsonl", "64 tokens of that model as a routing log, at random"),
    "demand": SampleFile("demand.npy", "bytes between 16 servers, drawn at random, for schedule"),
    "phases": SampleFile("phases.csv", "who sends how many bytes to whom by phase, for --workload"),
    "flows": SampleFile("flows.csv", "flows of 8 hosts, for lightloom packets"),
    "packets": SampleFile("packets.toml", "a packet simulation as one file"),
    "nccl-tests": SampleFile("all_reduce_perf.txt", "a table of NCCL tests, to calibrate with"),
    "region": SampleFile("region.toml", "a region of circuit-rack, for lightloom control"),
    "port-map": SampleFile("ports.csv", "the ports of a switch that its NICs are on"),
    "leaf-spine": SampleFile("leaf-spine.toml", "a topology in ten lines, for --fabrics"),
    "eight-planes": SampleFile("eight-planes.toml", "eight planes of 100 Gb/s links that spray"),
    "eight-planes-cpo": SampleFile("eight-planes-cpo.toml", "the same with co-packaged optics"),
    "circuit-rack": SampleFile("circuit-rack.toml", "a topology with circuits"),
    "lumoscore": SampleFile("lumoscore.toml", "pods whose core is circuits"),
    "photonic-rails": SampleFile("photonic-rails.toml", "rails that are circuit switches"),
    "scale-up-144": SampleFile("scale-up-144.toml", "racks of 144 GPUs"),
    "scale-up-576": SampleFile("scale-up-576.toml", "racks of 576 GPUs"),
    "scale-up-576-cpo": SampleFile("scale-up-576-cpo.toml", "these with co-packaged optics"),
}


def read_sample(name: str) -> bytes:
    """The content of a sample, by its name or that of its file.

    Raises
    ------
    InputError
        If there is none of this name.
    """
    files = {sample.file: key for key, sample in SAMPLES.items()}
    key = files.get(name, name)
    if key not in SAMPLES:
        hint = did_you_mean(name[:60], (*SAMPLES, *files))
        raise InputError(f"no example {echo(name)}{hint}; known: {', '.join(SAMPLES)}")
    return (resources.files(__package__) / SAMPLES[key].file).read_bytes()
