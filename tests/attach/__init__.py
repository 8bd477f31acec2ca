"""Attaching to real processes: the two ends of the probe, and what lies between them."""
