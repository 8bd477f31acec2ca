"""Compares the ranks of a job. `memory`: which has more or less; `behind`, `collectives`, `lines`: which is behind."""
