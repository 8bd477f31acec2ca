"""PromQL in which each GPU is there once, whoever tells of it; nothing that Prometheus 2.42 does not know.

A GPU is known by its UUID alone: names of nodes differ from exporter to exporter, and instances of MIG and pods that
share a GPU repeat it. Of several exporters the most trusted one is believed, by `or on (UUID)`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from gputui.model.fleet.exporters import Exporter, Quantity
from gputui.sources.prometheus.metrics import INFO, JOB_KINDS, METRICS, JobKind, Metric

NODE, QUANTITY, EXPORTER = "gputui_node", "gputui_quantity", "gputui_exporter"
"""Labels that the queries add. Nothing is exported under these names."""
HERE = "cluster, node, instance"
"""Where a series comes from, before it has the name of its node."""
ALL_JOB_LABELS = ", ".join(label for kind in JOB_KINDS for label in kind.labels)
PROCESS = "cluster, instance, pid"
"""What tells a process from others."""


class Part(NamedTuple):
    """Which series are wanted: of all nodes or of some, those that match; now, `over` a time, or an `offset` ago."""

    nodes: tuple[str, ...] = ()
    matching: str = ""
    over: str = ""
    function: str = "last_over_time"
    offset: str = ""

    def of(self, name: str) -> str:
        """The expression for the metric with a name."""
        if not self.nodes:
            return self._ranged(f"{name}{{{self.matching}}}" if self.matching else name)
        names = "|".join(map(re.escape, self.nodes))
        ways = (f"node=~{quoted(names)}", f'node="",instance=~{quoted(f"(?:{names})(?::[0-9]+)?")}')
        also = f",{self.matching}" if self.matching else ""
        return "(" + " or ".join(self._ranged(f"{name}{{{way}{also}}}") for way in ways) + ")"

    def _ranged(self, selector: str) -> str:
        if self.over:
            return f"{self.function}({selector}[{self.over}])"
        return f"{selector} offset {self.offset}" if self.offset else selector


_OTHER_NAMES = {
    (Exporter.DCGM, "model_name"): "modelName",
    (Exporter.DCGM_NEW, "model_name"): "modelName",
    (Exporter.SMI, "model_name"): "name",
    (Exporter.SMI, "gpu"): "index",
}
"""What exporters call labels."""
ALL = Part()
"""Every series, now."""


def quoted(text: str) -> str:
    """A text as PromQL has it between quotes."""
    return json.dumps(text, ensure_ascii=False)


def labelled(expression: str, label: str, value: str) -> str:
    """The same series with a label."""
    return f'label_replace({expression}, "{label}", {quoted(value)}, "", "")'


def copied(expression: str, source: str, label: str, form: str = "(.+)", value: str = "$1") -> str:
    """The same series, with what `form` finds in one label in another; where it finds nothing, as it was."""
    return f'label_replace({expression}, "{label}", "{value}", "{source}", {quoted(form)})'


def placed(expression: str) -> str:
    """With the name of the node: the label of that name, or the host in the address that is scraped."""
    return copied(copied(expression, "instance", NODE, "(.+?)(?::[0-9]+)?"), "node", NODE)


def per_gpu(
    quantity: Quantity, names: frozenset[str], part: Part = ALL, keep: str = "", of: Exporter | None = None
) -> str:
    """A quantity of each GPU, once; "" where no name of it is known. `keep` are further labels, `of` one exporter.

    The nodes have no names yet: with `placed`, the fewest series should get them, as that takes the server longest.
    """
    labels = f"{HERE}, UUID, {keep}" if keep else f"{HERE}, UUID"
    parts: list[str] = []
    for metric in METRICS[quantity]:
        if not names.issuperset(metric.names) or of not in (None, metric.exporter):
            continue
        if metric.adds_up:
            whole, instances = (_matching(part, f'GPU_I_ID{sign}""') for sign in ("=", "!="))
            parts.append(f"max by ({labels}) ({_of_exporter(metric, whole, keep)})")
            each = f"max by ({labels}, GPU_I_ID) ({_of_exporter(metric, instances, keep)})"
            parts.append(f"sum by ({labels}) ({each})")
        else:
            parts.append(f"max by ({labels}) ({_of_exporter(metric, part, keep)})")
    return " or on (UUID) ".join(parts)


def _of_exporter(metric: Metric, part: Part, keep: str) -> str:
    """A metric of one exporter, with those labels that all have here."""
    expression = metric.form.format(*map(part.of, metric.names))
    if metric.exporter is Exporter.SMI:
        expression = copied(expression, "uuid", "UUID", "(?:GPU-)?(.+)", "GPU-$1")
    for label in filter(None, keep.split(", ")):
        if source := _OTHER_NAMES.get((metric.exporter, label)):
            expression = copied(expression, source, label)
    return expression


def per_node(function: str, gpus: str) -> str:
    """GPUs together as nodes: first those of each exporter's page, so that few series get the name of their node.

    Where several pages have some of a node's GPUs each, a mean is that of theirs: to count would double the work.
    """
    inner = f"{function} by ({HERE}) ({gpus})"
    return f"{'sum' if function == 'count' else function} by (cluster, {NODE}) ({placed(inner)})"


def union(expressions: Iterable[tuple[str, str]], label: str = QUANTITY) -> str:
    """Several expressions as one question, told apart by a label; those that are "" are left out."""
    return " or ".join(labelled(f"({expression})", label, name) for name, expression in expressions if expression)


def with_info(expression: str, labels: str, info: str = INFO) -> str:
    """Readings of processes, with labels of their info."""
    return f"{expression} * on ({PROCESS}) group_left ({labels}) max by ({PROCESS}, {labels}) ({info})"


def of_jobs(kinds: Iterable[JobKind], build: Callable[[str, str], str], matching: str = "") -> str:
    """What `build` makes of the labels and the info of jobs, for each kind; a process is in jobs of one kind alone."""
    parts = []
    for kind in kinds:
        before = (f'{other.key}=""' for other in JOB_KINDS[: JOB_KINDS.index(kind)])
        matchers = ",".join(filter(None, (f'{kind.key}!=""', *before, matching)))
        info = f"{INFO}{{{matchers}}}"
        parts.append(f"({build(', '.join(kind.labels), info)})")
    return " or ".join(parts)


def on_gpus(used: str, labels: str, busy: str) -> str:
    """How busy each GPU is on which processes of a job hold memory; `labels` are those of the job."""
    gpus = f"max by (cluster, {labels}, node, instance, UUID, gpu, user) ({used})"
    return f"({gpus}) * 0 + on (UUID) group_left () max by (UUID) ({busy})"


def _matching(part: Part, matcher: str) -> Part:
    return part._replace(matching=",".join(filter(None, (part.matching, matcher))))
