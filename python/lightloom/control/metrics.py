"""Metrics for Prometheus, if the optional package ``prometheus-client`` is there.

Without it everything is counted nowhere, and no metrics are served.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightloom.control.loopback_http import Page
from lightloom.control.port_map import SwitchPort
from lightloom.control.report import ChangeReport, Drift, RegionState
from lightloom.control.switch import PortStatus
from lightloom.control.switch_set import SwitchReplies

#: upper limits of the number of circuits of a change
PAIR_BUCKETS = (1, 4, 16, 64, 256)
_SECONDS = (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 10.0)
_LATENCY = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 1.0)


def pair_bucket(pairs: int) -> str:
    """Return the label of a number of circuits: ``1``, ``2-4``, ``5-16``, ... ``257+``."""
    lower = 1
    for upper in PAIR_BUCKETS:
        if pairs <= upper:
            return str(upper) if lower == upper else f"{lower}-{upper}"
        lower = upper + 1
    return f"{lower}+"


class ControlMetrics:
    """The metrics of one region.

    Parameters
    ----------
    region
        Its name, a label of every metric.
    """

    def __init__(self, region: str) -> None:
        self._region = region
        #: labels of the ports that are shown, by gauge
        self._shown: dict[str, set[tuple[str, str]]] = {
            "power": set(),
            "loss": set(),
            "growth": set(),
        }
        try:
            import prometheus_client
        except ImportError:
            self._client: Any = None
            return
        self._client = prometheus_client
        self.registry = prometheus_client.CollectorRegistry()
        self._make()

    @property
    def is_counting(self) -> bool:
        """Whether there is a library that counts."""
        return self._client is not None

    def _make(self) -> None:
        client, registry = self._client, self.registry

        def metric(kind: Any, name: str, text: str, *labels: str, **options: Any) -> Any:
            return kind(
                f"lightloom_{name}", text, ["region", *labels], registry=registry, **options
            )

        histogram, counter, gauge = client.Histogram, client.Counter, client.Gauge
        self._changes = metric(
            histogram,
            "reconfiguration_seconds",
            "Time from the first command to the verified result.",
            "pairs",
            "result",
            buckets=_SECONDS,
        )
        self._latency = metric(
            histogram,
            "decision_seconds",
            "Time from demand received to the first command sent.",
            buckets=_LATENCY,
        )
        self._circuits = metric(gauge, "circuits", "Circuits by state.", "state")
        self._power = metric(gauge, "port_power_dbm", "Power at a port.", "switch", "port")
        self._loss = metric(gauge, "port_loss_db", "Loss of a port's circuit.", "switch", "port")
        self._growth = metric(
            gauge,
            "loss_growth_db",
            "Growth of the loss to a port over its lowest reading.",
            "switch",
            "port",
        )
        self._growth_limit = metric(
            gauge, "max_loss_growth_db", "Growth of a loss above which it is an alarm."
        )
        self._denied = metric(counter, "denied", "Commands that a switch refused.", "code")
        self._mismatches = metric(
            counter, "verify_mismatches", "Circuits that were accepted, but not there."
        )
        self._state = metric(gauge, "state", "1 for the state of the region.", "state")
        self._drift = metric(gauge, "drift", "Circuits missing or of somebody else.")
        self._unreachable = metric(
            gauge, "switches_unreachable", "Switches that do not answer, where others do."
        )
        self._alarms = metric(gauge, "alarms", "Circuits and ports with an alarm.")
        self._age = metric(gauge, "reading_age_seconds", "Time since the switches were read.")
        self._lease = metric(gauge, "lease_held", "1 if the lease is held.")
        self._revision = metric(gauge, "lease_revision", "Revision of the lease.")
        self._requests = metric(counter, "requests", "Requests to the service.", "kind")

    def page(self) -> Page:
        """Return all metrics as a page for Prometheus; only with the library."""
        kind: str = self._client.CONTENT_TYPE_LATEST
        return Page(kind, self._client.generate_latest(self.registry))

    def text(self) -> str:
        """Return all metrics as Prometheus reads them; empty without the library."""
        if self._client is None:
            return ""
        text: bytes = self._client.generate_latest(self.registry)
        return text.decode()

    def count_request(self, kind: str) -> None:
        """Count a request, or what was refused."""
        if self._client is not None:
            self._requests.labels(self._region, kind).inc()

    def observe_latency(self, seconds: float) -> None:
        """Note the time from demand received to command sent."""
        if self._client is not None and seconds > 0:
            self._latency.labels(self._region).observe(seconds)

    def observe_change(self, report: ChangeReport, replies: SwitchReplies) -> None:
        """Note a change."""
        if self._client is None:
            return
        pairs = pair_bucket(max(report.change.pairs, 1))
        seconds = sum(report.timings.values())
        self._changes.labels(self._region, pairs, report.result).observe(seconds)
        for result in replies.results.values():
            if not result.is_accepted:
                self._denied.labels(self._region, result.code or "none").inc()
        wrong = sum("does not have it" in problem for problem in report.failed.values())
        if wrong:
            self._mismatches.labels(self._region).inc(wrong)

    def observe_region(
        self,
        state: RegionState,
        drift: Drift,
        circuits: Mapping[str, int],
        lease: tuple[bool, int],
    ) -> None:
        """Note what is true of the region by the last reading."""
        if self._client is None:
            return
        for label in RegionState:
            self._state.labels(self._region, str(label)).set(label is state)
        count = len(drift.missing) + len(drift.extra) + len(drift.strangers)
        self._drift.labels(self._region).set(count)
        for name, number in circuits.items():
            self._circuits.labels(self._region, name).set(number)
        self._lease.labels(self._region).set(lease[0])
        self._revision.labels(self._region).set(lease[1])

    def observe_watch(self, unreachable: int, alarms: int, age_s: float) -> None:
        """Note how many switches do not answer, how many alarms there are, and a reading's age."""
        if self._client is None:
            return
        self._unreachable.labels(self._region).set(unreachable)
        self._alarms.labels(self._region).set(alarms)
        self._age.labels(self._region).set(age_s)

    def observe_ports(self, statuses: Mapping[SwitchPort, PortStatus]) -> None:
        """Note power and loss of all ports that are measured; those of others vanish."""
        if self._client is None:
            return
        power = {port: status.power_dbm for port, status in statuses.items()}
        loss = {port: status.loss_db for port, status in statuses.items()}
        self._show("power", self._power, power)
        self._show("loss", self._loss, loss)

    def observe_growth(self, growth_db: Mapping[SwitchPort, float], limit_db: float) -> None:
        """Note by how much the loss to each egress port has grown, and how much is an alarm."""
        if self._client is not None:
            self._show("growth", self._growth, growth_db)
            self._growth_limit.labels(self._region).set(limit_db)

    def _show(self, name: str, gauge: Any, values: Mapping[SwitchPort, float | None]) -> None:
        shown = set()
        for port, value in values.items():
            if value is not None:
                gauge.labels(self._region, port.switch, port.port).set(value)
                shown.add((port.switch, port.port))
        for labels in self._shown[name] - shown:
            gauge.remove(self._region, *labels)
        self._shown[name] = shown
