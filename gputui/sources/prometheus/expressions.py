"""PromQL in which each GPU counts once, however many exporters report it; Prometheus 2.42 knows all that is used.

Only the UUID identifies a GPU: names of nodes differ from exporter to exporter, and MIG instances and pods that share a
GPU repeat its series. Where several exporters report a GPU, `or on (UUID)` takes the most trusted one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from gputui.model.fleet.exporters import Exporter, Quantity
from gputui.sources.prometheus.metrics import INFO, JOB_KINDS, METRICS, JobKind, Metric

NODE, QUANTITY, EXPORTER = "gputui_node", "gputui_quantity", "gputui_exporter"
"""Labels that the queries add, which no exporter has."""
HERE = "cluster, node, instance"
"""The labels that say where a series comes from, before `placed` gives it the name of its node."""
ALL_JOB_LABELS = ", ".join(label for kind in JOB_KINDS for label in kind.labels)
PROCESS = "cluster, instance, pid"
"""The labels that identify a process."""


class Part(NamedTuple):
    """Which series to take: of some `nodes` (() for all) and `matching`; now, `over` a time, or an `offset` ago."""

    nodes: tuple[str, ...] = ()
    matching: str = ""
    over: str = ""
    function: str = "last_over_time"
    offset: str = ""

    def of(self, name: str) -> str:
        """The expression for these series of a metric."""
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
"""Labels that an exporter calls otherwise, and its name for them."""
ALL = Part()
"""Every series, now."""


def quoted(text: str) -> str:
    """A text as a string of PromQL."""
    return json.dumps(text, ensure_ascii=False)


def labelled(expression: str, label: str, value: str) -> str:
    """The same series with one more label."""
    return f'label_replace({expression}, "{label}", {quoted(value)}, "", "")'


def copied(expression: str, source: str, label: str, form: str = "(.+)", value: str = "$1") -> str:
    """The same series; where the regular expression `form` matches the label `source`, `label` becomes `value`."""
    return f'label_replace({expression}, "{label}", "{value}", "{source}", {quoted(form)})'


def placed(expression: str) -> str:
    """The same series with the name of their node: the label `node`, or else the host of the scraped address."""
    return copied(copied(expression, "instance", NODE, "(.+?)(?::[0-9]+)?"), "node", NODE)


def per_gpu(
    quantity: Quantity, names: frozenset[str], part: Part = ALL, keep: str = "", of: Exporter | None = None
) -> str:
    """A quantity of each GPU, once; "" where the server has no metric of it. `keep` are more labels to keep.

    `of` is the only exporter to ask, None for all. Add the names of nodes with `placed` to as few series as possible,
    since that takes the server longest.
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
    """A metric of one exporter, with the labels UUID and `keep` as all exporters have them here."""
    expression = metric.form.format(*map(part.of, metric.names))
    if metric.exporter is Exporter.SMI:
        expression = copied(expression, "uuid", "UUID", "(?:GPU-)?(.+)", "GPU-$1")
    for label in filter(None, keep.split(", ")):
        if source := _OTHER_NAMES.get((metric.exporter, label)):
            expression = copied(expression, source, label)
    return expression


def per_node(function: str, gpus: str) -> str:
    """The GPUs of each node as one series; first those of each page, so that few series get the name of their node.

    Where several pages share a node's GPUs, a mean is the mean of the pages' means: weights would double the work.
    """
    inner = f"{function} by ({HERE}) ({gpus})"
    return f"{'sum' if function == 'count' else function} by (cluster, {NODE}) ({placed(inner)})"


def union(expressions: Iterable[tuple[str, str]], label: str = QUANTITY) -> str:
    """Several expressions, each with its name as a label, as one query; those that are "" are left out."""
    return " or ".join(labelled(f"({expression})", label, name) for name, expression in expressions if expression)


def with_info(expression: str, labels: str, info: str = INFO) -> str:
    """Readings of processes, with labels of the processes' info."""
    return f"{expression} * on ({PROCESS}) group_left ({labels}) max by ({PROCESS}, {labels}) ({info})"


def of_jobs(kinds: Iterable[JobKind], build: Callable[[str, str], str], matching: str = "") -> str:
    """What `build` makes of a kind's labels and info, for each kind of job; a process counts for one kind only."""
    parts = []
    for kind in kinds:
        before = (f'{other.key}=""' for other in JOB_KINDS[: JOB_KINDS.index(kind)])
        matchers = ",".join(filter(None, (f'{kind.key}!=""', *before, matching)))
        info = f"{INFO}{{{matchers}}}"
        parts.append(f"({build(', '.join(kind.labels), info)})")
    return " or ".join(parts)


def on_gpus(used: str, labels: str, busy: str) -> str:
    """How busy each GPU is on which a job's processes hold memory; `labels` are those of the job."""
    gpus = f"max by (cluster, {labels}, node, instance, UUID, gpu, user) ({used})"
    return f"({gpus}) * 0 + on (UUID) group_left () max by (UUID) ({busy})"


def _matching(part: Part, matcher: str) -> Part:
    return part._replace(matching=",".join(filter(None, (part.matching, matcher))))
