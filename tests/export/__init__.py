"""`gputui export`: the page, the server, and a real Prometheus."""
