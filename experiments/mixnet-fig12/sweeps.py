"""Sweeps: servers under a ToR, MixNet's constant, switching latency (D.7), batch size (D.4)."""

from __future__ import annotations

import dataclasses

import numpy as np
from cells import FREE_GBPS, Experiment, Model, fixed_local_times
from tables import figures, table


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


def constant(experiment: Experiment) -> str:
    """MixNet's C of C + V / rate over fat-tree's, without switching and without copies.

    Tensor-parallel collectives are made fixed times first: they use NVSwitch, too, and freeing the
    copies of all-to-alls is not to free them.
    """
    values = experiment.values["constant"]
    ours = experiment.assumptions["ours"]
    model = Model(experiment, values["model"], ours)
    nvswitch = model.network("mixnet", experiment.rates[0]).nvswitch
    graph = fixed_local_times(model.graph(0), nvswitch.gpu_rate_bps / 8)
    rates = tuple(float(rate) for rate in experiment.rates)
    rows = []
    for row in values["without"]:
        mixnet = {**ours.mixnet, **({} if row["switching"] else {"fixed_s": 0})}
        free = {} if row["copies"] else {"nvlink_gbps": FREE_GBPS}
        model.assumptions = dataclasses.replace(ours, mixnet={**mixnet, **free}, tree=free)
        found = {
            fabric: tuple(model.run(fabric, rate, graph).step_time_s for rate in rates)
            for fabric in ("fat-tree", "mixnet")
        }
        fits = {
            fabric: figures.Column(values["model"], fabric, rates, times_s).fit()[0]
            for fabric, times_s in found.items()
        }
        over = [x / y for x, y in zip(found["mixnet"], found["fat-tree"], strict=True)]
        relative = fits["mixnet"] / fits["fat-tree"]
        rows.append([row["name"], *(f"{ratio:.3f}" for ratio in over), f"{relative:.3f}"])
    header = f"{values['model']}, MixNet / fat-tree, our assumptions"
    return table([header, *(f"{rate} Gb/s" for rate in experiment.rates), "C"], rows)


def latency(experiment: Experiment) -> str:
    """MixNet's step by switching delay, over that with the shortest one."""
    values = experiment.values["latency"]
    rows = []
    for first in values["first"]:
        times = []
        for delay_s in values["delays_s"]:
            assumptions = experiment.assumptions["ours"]
            options = {**assumptions.mixnet, "first": first, "fixed_s": delay_s}
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
