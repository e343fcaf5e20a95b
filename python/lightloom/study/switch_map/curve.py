"""The step time over the delay of a reconfiguration, from few simulations.

All parts of a delay count alike, whether mirrors move, a receiver finds the clock or a NIC
initializes: the step depends on their sum. So one curve per rate and degree gives the whole plane
of switching and bring-up. A curve is simulated at its ends, and between them where what is
interpolated was found to be off; each such check tells how far.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

#: delays at the ends of a curve, s: one microsecond, and ten seconds of either part
SHORTEST_S, LONGEST_S = 1e-6, 20.0
#: shares of a decade below which a curve is not divided any more
FINEST = 0.15


@dataclass(frozen=True)
class StepCurve:
    """Step times by the delay of a reconfiguration, linear over its logarithm in between.

    Attributes
    ----------
    steps_s
        Simulated step time by delay, s.
    never_s
        Step time if circuits never change.
    error
        By what share at most an interpolated step was off where it was simulated next.
    checks
        How often that was done.
    """

    steps_s: Mapping[float, float]
    never_s: float
    error: float = 0.0
    checks: int = 0

    def step_s(self, delay_s: float) -> float:
        """Step time with a delay; beyond the ends that at the end.

        Examples
        --------
        >>> curve = StepCurve({1e-6: 2.0, 1e-2: 4.0}, never_s=4.0)
        >>> round(curve.step_s(1e-4), 6)
        3.0
        """
        delays = sorted(self.steps_s)
        steps = [self.steps_s[delay] for delay in delays]
        places = [math.log10(delay) for delay in delays]
        return float(np.interp(math.log10(max(delay_s, 1e-12)), places, steps))

    def border_s(self, pays: Callable[[float], bool]) -> float:
        """Longest delay up to which a step time pays without a gap, s.

        Returns 0 where none does, and infinity where a step pays whose circuits never change.

        Parameters
        ----------
        pays
            Whether a step time does, if all shorter ones do.
        """
        if not pays(self.step_s(SHORTEST_S)):
            return 0.0
        low, high = math.log10(SHORTEST_S), math.log10(LONGEST_S)
        # the first of fine steps that does not pay, and then by bisection
        places = np.linspace(low, high, 512)
        bad = next((place for place in places if not pays(self.step_s(10**place))), None)
        if bad is None:
            return math.inf if pays(self.never_s) else LONGEST_S
        good = bad - (high - low) / 511
        for _ in range(40):
            middle = (good + bad) / 2
            good, bad = (middle, bad) if pays(self.step_s(10**middle)) else (good, middle)
        return float(10**good)


#: simulates steps at delays, s
Simulate = Callable[[Sequence[float]], Sequence[float]]


def refined(simulate: Simulate, never_s: float, tolerance: float) -> StepCurve:
    """Simulate a curve until what is interpolated is known to be right.

    Parameters
    ----------
    simulate
        Steps at several delays at once.
    never_s
        Step time if circuits never change.
    tolerance
        Share of a step by which interpolation may be off.
    """
    ends = (SHORTEST_S, LONGEST_S)
    steps = dict(zip(ends, simulate(ends), strict=True))
    error, checks, open_ = 0.0, 0, [ends]
    while open_:
        middles = [math.sqrt(low * high) for low, high in open_]
        times = simulate(middles)
        before = StepCurve(dict(steps), never_s)
        divided: list[tuple[float, float]] = []
        for (low, high), middle, step in zip(open_, middles, times, strict=True):
            off = abs(before.step_s(middle) - step) / step
            steps[middle], checks = step, checks + 1
            halves = math.log10(high / low) / 2
            if off > tolerance and halves > FINEST:
                divided += [(low, middle), (middle, high)]
            else:
                error = max(error, off)
        open_ = divided
    return StepCurve(dict(sorted(steps.items())), never_s, error, checks)
