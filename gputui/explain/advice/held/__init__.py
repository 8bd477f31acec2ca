"""Findings about live memory: who holds it, and what holds it without being of use."""
