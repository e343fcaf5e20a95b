"""Sweeps: servers under a ToR, reconfiguration latency (D.7) and batch size (D.4)."""

from __future__ import annotations

import dataclasses

import numpy as np
from cells import Experiment, Model
from tables import table


def oversub(experiment: Experiment) -> str:
    """3:1 fat-tree over MixNet by servers under a ToR."""
    values = experiment.values["oversub"]
    assumptions = experiment.assumptions["authors"]
    model = Model(experiment, values["model"], assumptions)
    graph = model.graph(0)
    mixnet = [model.run("mixnet", rate, graph).step_time_s for rate in experiment.rates]
    rows = []
    for servers in values["servers_per_tor"]:
        tree = {**assumptions.tree, **({"servers_per_tor": servers} if servers else {})}
        model.assumptions = dataclasses.replace(assumptions, tree=tree)
        over = [
            model.run("oversub", rate, graph).step_time_s / time_s
            for rate, time_s in zip(experiment.rates, mixnet, strict=True)
        ]
        name = f"{servers} server under a ToR" if servers else "as many as fit"
        rows.append([name, *(f"{ratio:.3f}" for ratio in over)])
    header = f"{values['model']}, 3:1 fat-tree / MixNet, authors' assumptions"
    return table([header, *(f"{rate} Gb/s" for rate in experiment.rates)], rows)


def latency(experiment: Experiment) -> str:
    """MixNet's step by switching delay, over that with the shortest one."""
    values = experiment.values["latency"]
    rows = []
    for first in values["first"]:
        times = []
        for delay_s in values["delays_s"]:
            assumptions = experiment.assumptions["ours"]
            options = {**assumptions.mixnet, "first": first, "switch_delay_s": delay_s}
            changed = dataclasses.replace(assumptions, mixnet=options)
            model = Model(experiment, values["model"], changed)
            times.append(model.run("mixnet", values["rate_gbps"], model.graph(0)).step_time_s)
        rows.append([f"first = {first}", *(f"{time_s / times[0]:.2f}" for time_s in times)])
    delays = [f"{1e3 * delay_s:g} ms" for delay_s in values["delays_s"]]
    return table([f"{values['model']}, {values['rate_gbps']} Gb/s, our assumptions", *delays], rows)


def batches(experiment: Experiment) -> str:
    """TopoOpt / MixNet by micro-batch size, mean over rates."""
    values = experiment.values["batches"]
    found = []
    for size in values["micro_batch_sizes"]:
        model = Model(experiment, values["model"], experiment.assumptions["authors"], size)
        graph = model.graph(0)
        over = [
            model.run("topoopt", rate, graph).step_time_s
            / model.run("mixnet", rate, graph).step_time_s
            for rate in experiment.rates
        ]
        found.append(float(np.mean(over)))
    rows = [
        ["paper (about)", *(f"{ratio:.1f}" for ratio in values["published"])],
        ["authors' assumptions", *(f"{ratio:.2f}" for ratio in found)],
    ]
    header = f"{values['model']}, TopoOpt / MixNet, mean over rates"
    return table([header, *(f"micro-batch {size}" for size in values["micro_batch_sizes"])], rows)
