"""The switch interval and the garbage collector: what the probe changes of them holds for all threads of the program.

Stops and waits of several threads may overlap: one in the main thread, one in the probe's, and one in any thread that
runs out of memory. So this notes what each of them needs, and the last one to end puts back what the program has set.

No lock guards that: an exception of a signal handler could leave it locked, and a forked child would inherit it. Other
threads may run in the middle of each method, and an exception may end it there: what is right is worked out anew.
"""

from __future__ import annotations

import gc
import sys

_OWN_S = 3.7e-5
"""What each switch interval of the probe's has beyond tenths of a millisecond: it tells them from the program's."""
_HALF_A_MICROSECOND_S = 5e-7
"""Added to what is set, as Python cuts it to whole microseconds: 0.003 would be 0.002999."""


class InterpreterSettings:
    """What the probe's stops and waits need, each under a key of its own."""

    def __init__(self) -> None:
        self._intervals_s: dict[object, float] = {}
        self._stops: set[object] = set()
        """Those during which nothing is collected."""
        self._switched_off: set[object] = set()
        """Those that have found the collector on, until it is on again."""
        self._program_s = sys.getswitchinterval()

    @property
    def program_s(self) -> float:
        """The program's own switch interval."""
        now_s = sys.getswitchinterval()
        if round(now_s * 1e6) % 100 != round(_OWN_S * 1e6):
            self._program_s = now_s
        return self._program_s

    def switch_after(self, interval_s: float, key: object) -> None:
        """Have threads hand over the interpreter after this time, or later if another stop or wait needs that."""
        self._intervals_s[key] = round(interval_s, 4) + _OWN_S
        self._set_interval()

    def collect_nothing(self, key: object) -> None:
        """Switch the garbage collector off."""
        self._stops.add(key)
        if gc.isenabled():
            self._switched_off.add(key)
            gc.disable()

    def put_back(self, key: object) -> None:
        """End what `key` needs; call it again if an exception has ended it half-way."""
        self._intervals_s.pop(key, None)
        self._set_interval()
        self._stops.discard(key)
        if not self._stops and self._switched_off:
            ended = self._switched_off.copy()  # another thread's stop may begin right after the next line
            gc.enable()
            self._switched_off -= ended

    def after_fork_in_child(self) -> None:
        """End what threads of the parent need, which do not run in the child."""
        self._intervals_s.clear()
        self._stops.clear()
        self.put_back(None)

    def _set_interval(self) -> None:
        """Set the longest interval that is needed, until no other thread has changed what that is meanwhile."""
        wanted_s = None
        while wanted_s != self._wanted_s():
            wanted_s = self._wanted_s()
            sys.setswitchinterval(wanted_s + _HALF_A_MICROSECOND_S)

    def _wanted_s(self) -> float:
        return max(self._intervals_s.values(), default=self.program_s)


settings = InterpreterSettings()
