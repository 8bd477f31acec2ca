"""Many machines: `gputui fleet` beside a real Prometheus."""
