"""Exceptions in a list that grows while looks read a part of it: a row for each look."""

import json
import sys
from types import SimpleNamespace

import torch
from reader_looks import Looks

BEFORE, LOOKS, GROWTH = 200, 10, 2
STEPS = 5000


def fail():
    batch = torch.ones(64, 64, device="cuda")
    raise ValueError(len(batch))


def step(run):
    try:
        fail()
    except ValueError as error:
        run.errors.append((len(run.errors), error))


def main():
    run, looks, table = SimpleNamespace(errors=[]), Looks(), []
    for _ in range(BEFORE):
        step(run)
    for _ in range(LOOKS):
        for _ in range(GROWTH):
            step(run)
        inventory = looks.take(STEPS)
        on_device = [storage for storage in inventory["storages"] if storage["device"] == 0]
        (container,) = (found for found in inventory["containers"] if found["name"] == "run.errors")
        table.append(
            {
                "elements": container["elements"],
                "read": container["read"],
                "named": sum("run.errors[" in storage["owner"][-1] for storage in on_device),
                "keepers": sorted({storage["keeper"] for storage in on_device}),
            }
        )
    json.dump(table, sys.stdout)


main()
