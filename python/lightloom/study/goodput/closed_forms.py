"""When to write checkpoints, and how much of the time is then useful, in closed form.

Failures come at random with a mean time M between them. After each, a time R goes by until the job
trains again, and what was computed since the last checkpoint is lost.
"""

from __future__ import annotations

import math


def young_interval_s(checkpoint_s: float, between_s: float) -> float:
    """Training time between checkpoints that loses the least, to first order: sqrt(2 d M).

    Parameters
    ----------
    checkpoint_s
        Time d for which a checkpoint stops the training.
    between_s
        Mean time M between failures; infinity if there are none.

    Notes
    -----
    Young, A first order approximation to the optimum checkpoint interval, CACM 17(9), 1974.
    """
    return math.sqrt(2 * checkpoint_s * between_s)


def daly_interval_s(checkpoint_s: float, between_s: float) -> float:
    """The same, to a higher order; M where checkpoints take longer than twice that.

    Notes
    -----
    Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, Future
    Generation Computer Systems 22, 2006, equation 37.
    """
    if math.isinf(between_s) or checkpoint_s >= 2 * between_s:
        return between_s
    x = checkpoint_s / (2 * between_s)
    return young_interval_s(checkpoint_s, between_s) * (1 + math.sqrt(x) / 3 + x / 9) - checkpoint_s


def useful_share(
    interval_s: float, checkpoint_s: float, restart_s: float, between_s: float
) -> float:
    """Share of the time that is useful, with checkpoints every ``interval_s`` of training.

    Parameters
    ----------
    interval_s, checkpoint_s
        Training time between checkpoints, and how long each stops it.
    restart_s
        From a failure until the job trains again; a failure meanwhile begins it anew.
    between_s
        Mean time between failures, whose times are drawn from an exponential distribution.

    Notes
    -----
    Daly, equation 20: an interval takes ``M exp(R/M) (exp((t + d)/M) - 1)`` on average.
    """
    if math.isinf(between_s):
        return interval_s / (interval_s + checkpoint_s) if math.isfinite(interval_s) else 1.0
    # 1 / (exp(x) - 1), and exp(-R/M), which underflow where the job never gets there
    whole = (interval_s + checkpoint_s) / between_s
    reached = math.exp(-whole) / -math.expm1(-whole)
    return interval_s / between_s * reached * math.exp(-restart_s / between_s)
