"""The names of the commands, what each does, and which module describes it."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from lightloom.cli.options import Command

SUMMARY = "Plan, compare and simulate network fabrics for training Mixture-of-Experts models."
END = """Start with:
  lightloom compare mixtral-8x22b --gpus 1024 --rate 400

Sizes are in bytes, rates in bits per second per direction; prefixes are decimal.
Every command has --help, some --help-all; --install-completion makes a shell complete them."""


@dataclass(frozen=True)
class CommandEntry:
    """A command of a group: the module that describes it, its heading, what it does."""

    module: str
    section: str
    summary: str


#: every command, in the order of the help
COMMANDS = {
    "compare": CommandEntry(
        "compare",
        "Compare fabrics",
        "Compare fabrics for one training job: step time, cost, power, where the time goes.",
    ),
    "run": CommandEntry("run", "Compare fabrics", "Run the comparison that a TOML file describes."),
    "sweep": CommandEntry(
        "sweep", "Compare fabrics", "Run a study at many points, here or on a Ray cluster."
    ),
    "explore": CommandEntry(
        "explore", "Compare fabrics", "Look through the points of a sweep on a page."
    ),
    "explain": CommandEntry(
        "explain",
        "Compare fabrics",
        "Explain the difference in step time between two fabrics by their critical paths.",
    ),
    "price": CommandEntry(
        "price",
        "Compare fabrics",
        "Price results again: other prices, a budget, a limit of power.",
    ),
    "advise": CommandEntry(
        "advise",
        "Compare fabrics",
        "Say what to buy within a budget and a deadline.",
    ),
    "diff": CommandEntry(
        "diff", "Compare fabrics", "Say what moved between two results, and by how much."
    ),
    "goodput": CommandEntry(
        "goodput",
        "Compare fabrics",
        "Simulate failures over days: useful steps, what is lost to what, which spares pay.",
    ),
    "map": CommandEntry(
        "switch_map",
        "Compare fabrics",
        "Map for which circuit switches a fabric pays, today and tomorrow.",
    ),
    "memory": CommandEntry(
        "memory",
        "Look into a job, schedule circuits",
        "Show the memory of a job per GPU, by pipeline stage and part, and whether it fits.",
    ),
    "collective": CommandEntry(
        "collective",
        "Look into a job, schedule circuits",
        "Simulate one collective alone on fabrics: time, bandwidth, what carries it.",
    ),
    "alltoall": CommandEntry(
        "alltoall",
        "Look into a job, schedule circuits",
        "Choose how an all-to-all to experts under TP runs: whole, in chunks, with no copy.",
    ),
    "traffic": CommandEntry(
        "traffic",
        "Look into a job, schedule circuits",
        "Show who sends how many bytes to whom in a step, GPU by GPU, by parallelism.",
    ),
    "schedule": CommandEntry(
        "schedule",
        "Look into a job, schedule circuits",
        "Compare circuit schedulers on one demand and decide whether to reconfigure.",
    ),
    "predict": CommandEntry(
        "predict",
        "Look into a job, schedule circuits",
        "Score predictors of expert loads, and the circuits that are chosen by them.",
    ),
    "demand": CommandEntry(
        "demand",
        "Look into a job, schedule circuits",
        "Show how skewed a demand is, and its matrix: who sends how many tokens to whom.",
    ),
    "packets": CommandEntry(
        "packets",
        "Simulate packets, trace, measure",
        "Simulate flows packet by packet: completion times, queues, drops, marks and pauses.",
    ),
    "trace record": CommandEntry(
        "trace.record",
        "Simulate packets, trace, measure",
        "Record what a training program communicates.",
    ),
    "trace inspect": CommandEntry(
        "trace.inspect",
        "Simulate packets, trace, measure",
        "Show volumes by group, and whether ranks agree.",
    ),
    "trace expand": CommandEntry(
        "trace.expand",
        "Simulate packets, trace, measure",
        "Expand one rank of each role to all ranks.",
    ),
    "trace permutations": CommandEntry(
        "trace.permutations",
        "Simulate packets, trace, measure",
        "Expand a step to permutations of all ranks.",
    ),
    "trace slots": CommandEntry(
        "trace.slots",
        "Simulate packets, trace, measure",
        "Find the time slots with which a step takes least time.",
    ),
    "calibrate gpu": CommandEntry(
        "calibrate.gpu",
        "Simulate packets, trace, measure",
        "Measure the operators of this machine's GPU, for --profile of other commands.",
    ),
    "calibrate network": CommandEntry(
        "calibrate.network",
        "Simulate packets, trace, measure",
        "Fit links to what tests of NCCL or DeepEP, or a step, have measured.",
    ),
    "calibrate step": CommandEntry(
        "calibrate.step",
        "Simulate packets, trace, measure",
        "Show how far a prediction is from a recorded step, term by term.",
    ),
    "control plan": CommandEntry(
        "control.plan", "Control switches", "Show how the circuits of a region would change."
    ),
    "control apply": CommandEntry(
        "control.apply", "Control switches", "Change the circuits of a region."
    ),
    "control remap": CommandEntry(
        "control.remap", "Control switches", "Take up a port map that has changed."
    ),
    "control drain": CommandEntry(
        "control.drain", "Control switches", "Take NICs, servers or switches out of service."
    ),
    "control resume": CommandEntry(
        "control.resume", "Control switches", "Put parts into service again."
    ),
    "control service": CommandEntry(
        "control.service", "Control switches", "Show the clients of a service; pause it."
    ),
    "control watch": CommandEntry(
        "control.watch", "Control switches", "Report what the switches of a region hold."
    ),
    "control serve": CommandEntry(
        "control.serve", "Control switches", "Serve circuits to a training job by its demand."
    ),
    "control rollback": CommandEntry(
        "control.rollback", "Control switches", "Return to the circuits before a change."
    ),
    "control audit": CommandEntry(
        "control.audit", "Control switches", "List the changes of a region: who, why, what, when."
    ),
    "control tour": CommandEntry(
        "control.tour", "Control switches", "Show all of it on an emulated switch, step by step."
    ),
    "ocs-emulator": CommandEntry(
        "ocs_emulator",
        "Control switches",
        "Emulate an optical circuit switch, with its protocols and with faults on demand.",
    ),
    "testbed up": CommandEntry(
        "testbed.up", "Control switches", "Make servers, NICs and switches in the kernel."
    ),
    "testbed status": CommandEntry(
        "testbed.status", "Control switches", "Show NICs, circuits, bytes and what has failed."
    ),
    "testbed run": CommandEntry(
        "testbed.run", "Control switches", "Run a command in each server, as ranks of a job."
    ),
    "testbed train": CommandEntry(
        "testbed.train", "Control switches", "Train a small GPT with experts over its circuits."
    ),
    "testbed fail": CommandEntry(
        "testbed.fail", "Control switches", "Let a NIC, a server or the switch's control fail."
    ),
    "testbed repair": CommandEntry(
        "testbed.repair", "Control switches", "Put a part that has failed right again."
    ),
    "testbed self-test": CommandEntry(
        "testbed.self_test", "Control switches", "Measure rates, isolation and losses here."
    ),
    "testbed validate": CommandEntry(
        "testbed.validate", "Control switches", "Compare a step here with the simulated one."
    ),
    "testbed down": CommandEntry(
        "testbed.down", "Control switches", "Remove the testbed and all that is in it."
    ),
    "models": CommandEntry(
        "models", "Look up", "List the models known by name, or show one model's parameters."
    ),
    "fabrics": CommandEntry(
        "fabrics", "Look up", "List fabrics with their network cost, or the options of one."
    ),
    "example": CommandEntry(
        "example", "Look up", "Write a small file to try the other commands with."
    ),
}

#: what the commands of a family do together, by its name
FAMILIES = {
    "trace": "Trace training programs without GPUs: record, inspect, expand, permutations, slots.",
    "calibrate": "Make a profile of measurements: of this machine's GPU, of a network, of a step.",
    "control": "Drive circuit switches: plan, apply, watch, serve, drain, rollback, audit, tour.",
    "testbed": "Emulate servers and switches in the kernel: up, run, train, fail, down.",
}


def described(name: str) -> Command:
    """Import one command and return its description."""
    module = importlib.import_module(f"lightloom.cli.{COMMANDS[name].module}")
    made: Command = module.command()
    return made
