"""The exporter for Prometheus: what the monitor reads, and the counters of PyTorch's allocators, as one page.

    sources       asks each source, with a deadline of its own; returns `Readings`
    families      what a metric is
    devices, processes, allocators
                  the tables of metrics, and the samples made of readings
    collector     makes the page of readings; remembers which GPUs have to stay on it
    application   the page, the landing page and the health check, behind a password where users are configured
    web_config    users, passwords and certificates, from the file that all Go exporters read
    server        listens for requests

A new metric is a row of a table, and a row of docs/export.md.
"""
