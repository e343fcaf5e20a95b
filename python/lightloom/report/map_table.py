"""A map of circuit switches as tables and sentences."""

from __future__ import annotations

import math

from rich.console import Console
from rich.text import Text

from lightloom.report.grid import Grid, print_rows
from lightloom.report.terminal import print_sentence
from lightloom.study.switch_map.curve import SHORTEST_S
from lightloom.study.switch_map.results import MapCurve, SwitchMap
from lightloom.units import show_time, show_usd


def print_map(found: SwitchMap, console: Console) -> None:
    """Print the job, the borders, the products, what moves the borders, and the verdict, last."""
    for line in found.summary:
        console.print(Text(line), soft_wrap=True)
    for warning in found.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)
    for grid in (borders_grid(found), products_grid(found), *variants_grids(found)):
        print_rows(grid, console, left=("pays with links of today", "without bring-up"))
    console.print()
    for sentence in verdicts(found):
        print_sentence(sentence, console, "bold")


def delay_words(delay_s: float) -> str:
    """A border in words: no switch, any, or the longest delay."""
    if delay_s <= 0:
        return "none"
    return "any" if math.isinf(delay_s) else f"< {show_time(delay_s, 2)}"


def price_words(price_usd: float) -> str:
    """The highest price of a port in words."""
    return f"{price_usd:,.0f}" if price_usd > 0 else "none"


def borders_grid(found: SwitchMap) -> Grid:
    """Where it pays, by rate and degree."""
    return Grid(
        "Delays, bring-up included, up to which mixnet pays",
        _HEADERS,
        [[f"{c.rate_gbps:g}", str(c.degree), *_borders(c)] for c in found.curves],
        -1,
        "over the best other fabric, with ports at today's price; switching: over circuits that"
        " never change. Steps: with circuits that change at once, and never; of the fastest other"
        " fabric. Price: of a port, per cluster $, with circuits that change at once",
    )


_HEADERS = [
    ("Gb/s", ""),
    ("opt.\nports", ""),
    ("at\nonce", "s"),
    ("never", "s"),
    ("other", "s"),
    ("in\ntime", ""),
    ("per $ of\nnetwork", ""),
    ("per $ of\ncluster", ""),
    ("switch-\ning", ""),
    ("price up\nto", "$"),
]


def _borders(curve: MapCurve) -> list[str | float]:
    at_once = curve.curve.step_s(SHORTEST_S)
    return [
        f"{at_once:.4g}",
        f"{curve.curve.never_s:.4g}",
        f"{curve.rival('time').step_time_s:.4g}",
        *(delay_words(curve.border_s(metric)) for metric in ("time", "network", "cluster")),
        delay_words(curve.switching_border_s),
        price_words(curve.highest_port_usd("cluster", at_once)),
    ]


def products_grid(found: SwitchMap) -> Grid:
    """Whether the switches of today pay, with the bring-up of today and without."""
    main, rows = found.main, list[list[str]]()
    for product in found.products:
        cells = []
        for bring_up_s in (found.today_s, 0.0):
            delay_s = product.delay_s + bring_up_s
            step_s = main.curve.step_s(delay_s)
            names = ("time", "network", "cluster")
            pays = [m for m in names if main.pays(m, step_s, product.port_usd)]
            cells.append(", ".join(pays) or "nowhere")
        delay = show_time(product.delay_s, 3)
        rows.append([product.name, delay, f"{product.port_usd:,.0f}", *cells])
    return Grid(
        f"Switches of today, at {main.rate_gbps:g} Gb/s and degree {main.degree}",
        [
            ("switch", ""),
            ("delay", ""),
            ("$ per\nport", ""),
            ("pays with links of today", ""),
            ("without bring-up", ""),
        ],
        rows,
        -1,
        f"links of today: {show_time(found.today_s, 3)}; pays: in step time, per network dollar,"
        " per cluster dollar",
    )


def variants_grids(found: SwitchMap) -> list[Grid]:
    """How other loads, overlap and copies move the borders; none where nothing was changed."""
    if not found.variants:
        return []
    rows = [
        [
            border.variant or "the job itself",
            f"{100 * border.gain:.2f}",
            delay_words(border.switching_border_s),
            f"{100 * (border.curve.step_s(SHORTEST_S) / rival_s - 1):+.1f}",
            *(
                price_words(border.highest_port_usd(metric, border.curve.step_s(SHORTEST_S)))
                for metric in ("network", "cluster")
            ),
        ]
        for border in (found.main, *found.variants)
        for rival_s in [border.rival("time").step_time_s]
    ]
    return [
        Grid(
            "What moves the borders",
            [
                ("job", ""),
                ("gain of\nswitching", "%"),
                ("pays\nup to", ""),
                ("step to\nothers", "%"),
                ("$ per port:\nnetwork", ""),
                ("$ per port:\ncluster", ""),
            ],
            rows,
            -1,
            "gain: of circuits that change at once over fixed ones; step: then, over that of the"
            " fastest other fabric; $: highest price of a port that pays per dollar of each",
        )
    ]


def verdicts(found: SwitchMap) -> list[str]:
    """Whether switching pays, and up to which price a port does."""
    main = found.main
    where = f"at {main.rate_gbps:g} Gb/s and degree {main.degree}"
    at_once = main.curve.step_s(SHORTEST_S)
    rival = main.rival("time")
    longer = at_once / rival.step_time_s - 1
    border = main.border_s("time")
    if border > 0:
        time = (
            f"In step time mixnet pays {where}"
            f"{'' if math.isinf(border) else f' with delays up to {show_time(border, 2)}'}."
        )
    else:
        time = (
            f"In step time no circuit switch pays {where}: circuits that change at once take"
            f" {100 * longer:.1f} % longer than {rival.fabric}."
        )
    return [_switching(found), time, _money(main, at_once, where), _exactness(found)]


def _switching(found: SwitchMap) -> str:
    best = max((found.main, *found.variants), key=lambda one: one.gain)
    main = found.main
    if main.switching_border_s > 0:
        text = f"Changing circuits pays with delays up to {show_time(main.switching_border_s, 2)}"
    else:
        text = f"Changing circuits gains {100 * main.gain:.2f} % however fast the switch"
    if best is not main and best.switching_border_s > 0:
        text += (
            f"; with {best.variant} {100 * best.gain:.1f} %, up to"
            f" {show_time(best.switching_border_s, 2)}"
        )
    elif best is not main:
        text += f", and at most {100 * best.gain:.2f} % with {best.variant}"
    return f"{text}; links of today take {show_time(found.today_s, 3)} to come up."


def _money(main: MapCurve, step_s: float, where: str) -> str:
    clauses = []
    for metric in ("network", "cluster"):
        price = main.highest_port_usd(metric, step_s)
        over = main.rival(metric).fabric
        if price > 0:
            clauses.append(
                f"per {metric} dollar while its port costs less than {show_usd(price)}"
                f" (against {over})"
            )
        else:
            clauses.append(f"per {metric} dollar at no price of a port (against {over})")
    return (
        f"With circuits that change at once it pays {where} {' and '.join(clauses)};"
        f" today's costs {show_usd(main.port_usd)}."
    )


def _exactness(found: SwitchMap) -> str:
    every = (*found.curves, *found.variants)
    error = max(variant.curve.error for variant in every)
    checks = sum(variant.curve.checks for variant in every)
    return (
        f"{found.inputs['simulations']} simulations; interpolated steps were off by"
        f" {100 * error:.2g} % at most at {checks} delays that were simulated next."
    )
