"""Writes what is made from something else: the Grafana board, and the rules as the Prometheus operator wants them.

    python -m deploy.make

The board is made with Grafana's own library, so that each field of it is one that Grafana knows.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parent
RULES = ("rules.yml", "alerts.yml")
ABOUT_RULES = "# Made by `python -m deploy.make` from ../prometheus/rules.yml and alerts.yml: change those.\n"
RULE_HEAD = """\
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: gputui
  namespace: gputui
  labels:
    release: kube-prometheus-stack
spec:
  groups:
"""
HERE = 'cluster=~"$cluster", instance=~"$node"'
"""What each query asks for: the clusters and nodes that are chosen above the board."""
JOB = (
    f'* on (instance, pid) group_left (slurm_job_id, user, program) gputui_process_info{{{HERE}, slurm_job_id=~"$job"}}'
)


class Graph(NamedTuple):
    """A panel: its unit as Grafana names it, and its queries with their legends."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    meaning: str = ""


GPU, PROCESS = "{{instance}} GPU {{gpu}}", "{{instance}} {{pid}} {{program}} {{rank}}"
NUMBERS = (
    Graph("GPUs", "none", ((f"count(gputui_device_info{{{HERE}}})", ""),)),
    Graph("GPUs lost", "none", ((f"sum(gputui_device_lost{{{HERE}}})", ""),)),
    Graph("Busy", "percentunit", ((f"avg(gputui_device_busy_ratio{{{HERE}}})", ""),)),
    Graph(
        "Memory used",
        "percentunit",
        (
            (
                f"sum(gputui_device_memory_used_bytes{{{HERE}}}) / sum(gputui_device_memory_capacity_bytes{{{HERE}}})",
                "",
            ),
        ),
    ),
    Graph("Power", "watt", ((f"sum(gputui_device_power_watts{{{HERE}}})", ""),)),
    Graph("Programs with a probe", "none", ((f"sum(gputui_torch_probe_up{{{HERE}}})", ""),)),
)
ROWS = {
    "GPUs": (
        Graph("Busy", "percentunit", ((f"gputui_device_busy_ratio{{{HERE}}}", GPU),), "A kernel ran, however small."),
        Graph("SMs active", "percentunit", ((f"gputui_device_sm_active_ratio{{{HERE}}}", GPU),),
              "How much of the GPU worked: measured on Hopper and newer, or by dcgm-exporter on the node."),
        Graph("Memory used", "bytes", ((f"gputui_device_memory_used_bytes{{{HERE}}}", GPU),)),
        Graph("Memory without a process", "bytes", ((f"gputui_device_memory_unattributed_bytes{{{HERE}}}", GPU),)),
        Graph("Power", "watt", ((f"gputui_device_power_watts{{{HERE}}}", GPU),)),
        Graph("Degrees left until it slows down", "celsius",
              ((f"gputui_device_temperature_slowdown_margin_celsius{{{HERE}}}", GPU),)),
        Graph("Clocks limited", "none", ((f"sum by (reason) (gputui_device_clocks_limited{{{HERE}}})", "{{reason}}"),),
              "How many GPUs each reason slows down."),
        Graph("Uncorrected memory errors", "none",
              ((f"increase(gputui_device_ecc_uncorrected_errors_total{{{HERE}}}[$__rate_interval])", GPU),)),
    ),
    "Processes": (
        Graph("Memory held", "bytes", ((f"topk(20, gputui_process_memory_used_bytes{{{HERE}}} {JOB})", PROCESS),)),
        Graph("Memory of each job", "bytes",
              ((f"sum by (slurm_job_id, user) (gputui_process_memory_used_bytes{{{HERE}}} {JOB})",
                "{{slurm_job_id}} {{user}}"),)),
    ),
    "PyTorch": (
        Graph("Reserved", "bytes", ((f"topk(20, gputui_torch_reserved_bytes{{{HERE}}} {JOB})", PROCESS),)),
        Graph("Allocated", "bytes", ((f"topk(20, gputui_torch_allocated_bytes{{{HERE}}} {JOB})", PROCESS),)),
        Graph("Cache: reserved, and not in use", "bytes",
              ((f"topk(20, (gputui_torch_reserved_bytes{{{HERE}}} - gputui_torch_active_bytes) {JOB})", PROCESS),)),
        Graph("Outside PyTorch", "bytes", ((f"topk(20, gputui_torch_outside_bytes{{{HERE}}} {JOB})", PROCESS),)),
        Graph("Changes of the allocator", "cps",
              ((f"rate(gputui_torch_allocator_changes_total{{{HERE}}}[$__rate_interval]) {JOB}", PROCESS),),
              "A training makes thousands a second; one that stands still makes none."),
        Graph("Out of memory, and retries", "none", (
            (f"sum by (instance) (increase(gputui_torch_out_of_memory_errors_total{{{HERE}}}[$__rate_interval]))",
             "out of memory on {{instance}}"),
            (f"sum by (instance) (increase(gputui_torch_allocation_retries_total{{{HERE}}}[$__rate_interval]))",
             "retries on {{instance}}"),
        )),
    ),
    "Exporter": (
        Graph("A scrape takes", "s", ((f"gputui_scrape_duration_seconds{{{HERE}}}", "{{instance}}"),)),
        Graph("Sources that could not be read", "none",
              ((f"sum by (instance, source) (increase(gputui_scrape_source_errors_total{{{HERE}}}[$__rate_interval]))",
                "{{source}} on {{instance}}"),)),
    ),
}  # fmt: skip
VARIABLES = (
    ("cluster", "label_values(gputui_exporter_build_info, cluster)"),
    ("node", 'label_values(gputui_exporter_build_info{cluster=~"$cluster"}, instance)'),
    ("job", 'label_values(gputui_process_info{cluster=~"$cluster", instance=~"$node"}, slurm_job_id)'),
)


def board() -> str:
    """The board as JSON."""
    from grafana_foundation_sdk.builders import dashboard as dashboards
    from grafana_foundation_sdk.builders import prometheus, stat, timeseries
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models.dashboard import DataSourceRef

    source = DataSourceRef(type_val="prometheus", uid="$datasource")

    def panel(kind: type, graph: Graph, height: int, span: int) -> object:
        made = kind().title(graph.title).unit(graph.unit).datasource(source).height(height).span(span)
        made = made.description(graph.meaning) if graph.meaning else made
        for letter, (expression, legend) in zip("AB", graph.queries, strict=False):
            query = prometheus.Dataquery().expr(expression).legend_format(legend).ref_id(letter)
            made = made.with_target(query)
        return made

    made = dashboards.Dashboard("gputui: GPUs and PyTorch").uid("gputui").tags(["gpu", "pytorch"]).editable()
    made = made.time("now-3h", "now").refresh("30s").tooltip(1)
    made = made.with_variable(dashboards.DatasourceVariable("datasource").type("prometheus").label("Data source"))
    for name, query in VARIABLES:
        variable = dashboards.QueryVariable(name).label(name.capitalize()).query(query).datasource(source)
        made = made.with_variable(variable.multi(True).include_all(True).all_value(".*").refresh(2))
    for graph in NUMBERS:
        made = made.with_panel(panel(stat.Panel, graph, height=4, span=4))
    for title, graphs in ROWS.items():
        made = made.with_row(dashboards.Row(title))
        for graph in graphs:
            made = made.with_panel(panel(timeseries.Panel, graph, height=8, span=12))
    return json.dumps(_set(json.loads(JSONEncoder(sort_keys=True).encode(made.build()))), indent=1) + "\n"


def _set(part: object) -> object:
    """A part of the board, without the fields that nobody has set."""
    if isinstance(part, dict):
        return {name: _set(value) for name, value in part.items() if value is not None}
    return [_set(value) for value in part] if isinstance(part, list) else part


def operator_rules() -> str:
    """The rules as a PrometheusRule."""
    files = [(FOLDER / "prometheus" / name).read_text() for name in RULES]
    groups = [line for text in files for line in text.split("groups:\n", 1)[1].splitlines()]
    return ABOUT_RULES + RULE_HEAD + "\n".join(f"  {line}".rstrip() for line in groups) + "\n"


MADE = {FOLDER / "grafana" / "board.json": board, FOLDER / "kubernetes" / "prometheusrule.yaml": operator_rules}
"""Each file, and what writes it."""


def main() -> None:
    """Write all files."""
    for path, make in MADE.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(make())


if __name__ == "__main__":
    main()
