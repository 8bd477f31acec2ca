"""The exporter for Prometheus: what the monitor reads, and the counters of PyTorch's allocators, as one page.

    sources       asks each source, with a deadline of its own: `Readings`
    families      what a metric is
    devices, processes, allocators
                  the tables of metrics, and the samples that readings give
    collector     from readings to the page; remembers what has to stay on it
    application   the page, the landing page and the health check, behind users and passwords where there are some
    web_config    users, passwords and certificates, from the file that all Go exporters read
    server        listens

A new metric is a row of a table, and a row of docs/export.md.
"""
