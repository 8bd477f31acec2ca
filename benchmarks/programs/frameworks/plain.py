"""A program with a thread beside its main thread, for tools that trace, debug, profile or sample it."""

import threading
import time

import work

wrong = 0


def pieces(first, step):
    global wrong
    number = first
    while work.has_more():
        number += step
        wrong += not work.is_right(number, work.piece(number))


def beats():
    while work.has_more():
        began_s = time.monotonic()
        time.sleep(work.BEAT_S)
        work.beat(began_s)


others = [threading.Thread(target=beats), threading.Thread(target=pieces, args=(1, 2))]
for thread in others:
    thread.start()
work.ready()
pieces(0, 2)
for thread in others:
    thread.join()
work.end(wrong)
