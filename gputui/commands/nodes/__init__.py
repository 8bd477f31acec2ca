"""Many machines: the page that Prometheus reads, and the fleet, read through ssh or from a Prometheus."""
