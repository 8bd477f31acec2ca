"""A timer's signal a thousand times a second, whose handler counts how late it comes."""

import signal
import time

import work

last_s = time.monotonic()


def handler(_number, _frame):
    global last_s
    work.beat(last_s)
    last_s = time.monotonic()


wrong = number = 0
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
work.ready()
while work.has_more():
    number += 1
    wrong += not work.is_right(number, work.piece(number))
signal.setitimer(signal.ITIMER_REAL, 0)
work.end(wrong)
