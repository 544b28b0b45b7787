"""Write the numbers of a run in Prometheus' text format, for a textfile collector."""

from __future__ import annotations

from pathlib import Path

from kitctl.edge.files import write_atomic
from kitctl.watch.run_metrics import run_samples
from kitctl.watch.run_record import RunRecord

METRICS_FILE = "metrics/kitctl.prom"


def write_metrics(record: RunRecord) -> None:
    """``metrics/kitctl.prom`` in the run's folder, anew. Raises KitError ``file-unwritable`` (exit 2)."""
    write_atomic(str(Path(record.folder) / METRICS_FILE), metrics_text(record))


def metrics_text(record: RunRecord) -> str:
    """The run's gauges as text; each carries stack and project."""
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry = CollectorRegistry()
    gauges: dict[str, Gauge] = {}
    for sample in run_samples(record):
        labels = {"stack": record.stack, "project": record.project, **sample.labels}
        if sample.name not in gauges:
            gauges[sample.name] = Gauge(sample.name, sample.help, list(labels), registry=registry)
        gauges[sample.name].labels(**labels).set(sample.value)
    return generate_latest(registry).decode()
