"""Tune DCQCN on matrices other than those of the figure, by Optuna.

    python experiments/chronos-fig6/tune.py [--write]

``tuned`` has the six parameters that the paper tunes: Kmin, Kmax, Pmax, R_AI, R_HAI and g;
``timer`` the interval between increases as well; ``deep`` thresholds without regard for buffers.
Prints the best parameters; ``--write`` puts them into tuned.toml. Some 3 minutes on two idle cores;
needs ``pip install lightloom[experiments]``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import cases
import numpy as np
import optuna
from settings import TUNED, Parameters, Settings, load


def ranges(settings: Settings, name: str) -> dict[str, tuple[float, float]]:
    """Least and largest value of each parameter."""
    everywhere = next(iter(settings.tuning.ranges.values()))
    return everywhere | settings.tuning.ranges[name]


def suggest(trial: optuna.Trial, settings: Settings, name: str) -> Parameters:
    """One set of parameters, named as in tuned.toml."""
    found = {
        key: float(f"{trial.suggest_float(key, minimum, maximum, log=True):.3g}")
        for key, (minimum, maximum) in ranges(settings, name).items()
    }
    ratio = found.pop("ecn_ratio")
    minimum = int(found.pop("ecn_min_bytes"))
    return {"ecn_min_bytes": minimum, "ecn_max_bytes": int(minimum * ratio), **found}


def tune(settings: Settings, name: str) -> tuple[Parameters, float]:
    """Return the best parameters and the share of time that circuits would still gain."""
    tuning = settings.tuning
    demands = cases.demands(settings, tuning.matrices, tuning.seed)
    lines = [cases.line_s(settings, demand) for demand in demands]
    started = time.perf_counter()

    def loss(trial: optuna.Trial) -> float:
        found = suggest(trial, settings, name)
        trial.set_user_attr("parameters", found)
        case = cases.scenario(settings, "dcqcn", found)
        times = pool.map(lambda demand: cases.packet_s(case, demand), demands)
        return float(np.mean([1 - line / time for line, time in zip(lines, times, strict=True)]))

    def tell(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        spent = time.perf_counter() - started
        left = spent / (trial.number + 1) * (tuning.trials - trial.number - 1)
        print(
            f"{name}: trial {trial.number + 1} of {tuning.trials}, best {study.best_value:.3f}, "
            f"{left / 60:.1f} min left",
            file=sys.stderr,
        )

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=tuning.sampler_seed)
    study = optuna.create_study(sampler=sampler)
    study.enqueue_trial(_published(settings, name))
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        study.optimize(loss, n_trials=tuning.trials, callbacks=[tell])
    return study.best_trial.user_attrs["parameters"], study.best_value


def _published(settings: Settings, name: str) -> Parameters:
    """The parameters of the ns-3 model, as the first trial."""
    found = cases.parameters(settings, None)
    found["ecn_ratio"] = found["ecn_max_bytes"] / found["ecn_min_bytes"]
    return {key: found[key] for key in ranges(settings, name)}


def text(found: dict[str, tuple[Parameters, float]]) -> str:
    """tuned.toml."""
    lines = ["# Written by tune.py: what it found for the DCQCN of each packet simulation."]
    for name, (parameters, loss) in found.items():
        lines += ["", f"# circuits gain {loss:.1%} on the matrices of the tuning", f"[{name}]"]
        lines += [f"{key} = {value!r}" for key, value in parameters.items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Tune, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    settings = load()
    found: dict[str, tuple[Parameters, float]] = {}
    for name in settings.tuning.ranges:
        found[name] = tune(settings, name)
        if options.write:
            TUNED.write_text(text(found), encoding="utf-8")
    print(text(found), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
