"""Threads that call functions and delete variables, while the variables of all frames are read again and again."""

import json
import sys
import threading

from gputui.probe.objects import stacks

READS = int(sys.argv[1])
THREADS = 3
SHORTEST_TURN_S = 1e-6
"""So that other threads run between any two steps of a read."""


class Held:
    """Goes as soon as no variable has it: its memory is soon used for another."""

    __slots__ = ("value",)


def passing(number):
    first = Held()
    second = [first]
    third = second, number
    del first
    last = Held()
    return third if number else last


def work():
    while True:
        for number in range(50):
            passing(number)


sys.setswitchinterval(SHORTEST_TURN_S)
for _ in range(THREADS):
    threading.Thread(target=work, daemon=True).start()
names, types = set(), set()
for _ in range(READS):
    for running in stacks.running():
        names.update(running.variables)
        types.update(map(type, running.variables.values()))
    del running
json.dump({"names": sorted(names), "types": sorted(cls.__name__ for cls in types)}, sys.stdout)
