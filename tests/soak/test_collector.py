"""The metrics of a region by the OpenTelemetry collector, with its file, to a receiver of OTLP.

The collector is a program of its own; without ``otelcol`` or ``otelcol-contrib`` and the package
``opentelemetry-proto`` the test is skipped.
"""

import asyncio
import contextlib
import importlib.resources
import os
import shutil

import pytest
import yaml

from lightloom.control.loopback_http import LoopbackServer
from lightloom.control.metrics import ControlMetrics
from lightloom.control.port_map import SwitchPort
from lightloom.control.report import Drift, RegionState
from lightloom.control.switch import PortStatus

LIMIT_S = 30
DATA = importlib.resources.files("lightloom.control").joinpath("data")


def metrics_of_a_region():
    metrics = ControlMetrics("r0")
    metrics.observe_region(RegionState.READY, Drift(), {"connected": 3}, (True, 7))
    metrics.observe_ports({SwitchPort("ocs", "1"): PortStatus("1", power_dbm=-2.5, loss_db=1.25)})
    metrics.observe_latency(0.0012)
    return metrics


def values_of(exported):
    """Values by name and labels, of what a receiver of OTLP got."""
    found = {}
    for resource in exported.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                for point in getattr(metric, kind).data_points:
                    labels = {one.key: one.value.string_value for one in point.attributes}
                    name = (metric.name, *sorted(labels.items()))
                    found[name] = point.count if kind == "histogram" else point.as_double
    return found


def test_what_a_region_measures_arrives_as_otlp(tmp_path):
    program = shutil.which("otelcol-contrib") or shutil.which("otelcol")
    if program is None:
        pytest.skip("no OpenTelemetry collector")
    grpc = pytest.importorskip("grpc")
    pytest.importorskip("prometheus_client")
    service = "opentelemetry.proto.collector.metrics.v1.metrics_service_pb2"
    messages = pytest.importorskip(service)
    services = pytest.importorskip(f"{service}_grpc")
    region = ("region", "r0")
    expected = {
        ("lightloom_state", region, ("state", "ready")): 1.0,
        ("lightloom_circuits", region, ("state", "connected")): 3.0,
        ("lightloom_port_power_dbm", ("port", "1"), region, ("switch", "ocs")): -2.5,
        ("lightloom_decision_seconds", region): 1,
    }
    found, complete = {}, asyncio.Event()

    class Receiver(services.MetricsServiceServicer):
        async def Export(self, request, _):
            found.update(values_of(request))
            if expected.keys() <= found.keys():
                complete.set()
            return messages.ExportMetricsServiceResponse()

    async def check():
        server = grpc.aio.server()
        services.add_MetricsServiceServicer_to_server(Receiver(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        http = LoopbackServer({"/metrics": metrics_of_a_region().page})
        http_port = await http.start(0)
        # another port, sooner, and no TLS to a receiver on this machine; all else is the file
        file = yaml.safe_load(DATA.joinpath("otel-collector.yml").read_text("utf-8"))
        (scrape,) = file["receivers"]["prometheus"]["config"]["scrape_configs"]
        scrape |= {
            "scrape_interval": "1s",
            "static_configs": [{"targets": [f"127.0.0.1:{http_port}"]}],
        }
        file["exporters"]["otlp"]["tls"] = {"insecure": True}
        file["service"]["telemetry"] = {"metrics": {"level": "none"}}
        (tmp_path / "collector.yml").write_text(yaml.safe_dump(file))
        process = await asyncio.create_subprocess_exec(
            program,
            "--config",
            str(tmp_path / "collector.yml"),
            env={**os.environ, "OTLP_ENDPOINT": f"127.0.0.1:{port}"},
            stderr=asyncio.subprocess.PIPE,
        )
        ended = asyncio.create_task(process.communicate())
        arrived = asyncio.create_task(complete.wait())
        await asyncio.wait({ended, arrived}, timeout=LIMIT_S, return_when="FIRST_COMPLETED")
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        said = (await ended)[1].decode()
        arrived.cancel()
        await http.close()
        await server.stop(None)
        assert complete.is_set(), said

    asyncio.run(check())
    assert {name: found[name] for name in expected} == expected
