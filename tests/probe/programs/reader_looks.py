"""Looks of one reader in the program itself, as the probe takes them, with stops of so many steps."""

import sys

import torch
from owner_texts import owner_text

from gputui.probe.looks.stops import empty_look, is_complete
from gputui.probe.looks.torch_reader import TorchReader
from gputui.probe.pace.meter import Meter


class Looks:
    """Looks of one reader, as the probe takes them by itself."""

    def __init__(self, looks=0):
        self.reader = TorchReader()
        self.steps = 0
        for _ in range(looks):
            self.take()

    def take(self, steps=sys.maxsize):
        """An inventory in one or two stops of at most so many steps, with the owners by address in `owners`."""
        look = self.read(steps)
        if not is_complete(look):
            self.reader.keep_part(look)
            look = self.read(steps)
        self.reader.describe(look)
        assert look["problems"] == look["inventory"]["problems"] == [], look
        inventory = look["inventory"]
        inventory["owners"] = {s["address"]: owner_text(s).partition(" (")[0] for s in inventory["storages"]}
        return inventory

    def read(self, steps):
        look = empty_look([])
        meter = Meter(60, max_steps=steps)
        self.reader.read(torch, "walk", look, meter, may_walk=False)
        self.steps = meter.steps
        return look

    def climb(self):
        """One stop on the way up from tensors without a name, where the probe would make one."""
        if self.reader.may_climb(float("inf")):
            self.reader.climb(torch, [])
