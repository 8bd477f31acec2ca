"""Many machines: a page for Prometheus, and the fleet that it or ssh tells of."""
