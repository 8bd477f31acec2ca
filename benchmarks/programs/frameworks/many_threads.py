"""500 threads that wait for a queue, of which each takes a piece of work in its turn."""

import queue
import threading
import time

import work

THREADS = 500
numbers, results = queue.Queue(), queue.Queue()


def answer():
    while (number := numbers.get()) is not None:
        results.put((number, work.piece(number)))


def beats():
    while work.has_more():
        began_s = time.monotonic()
        time.sleep(work.BEAT_S)
        work.beat(began_s)


wrong = number = 0
threads = [threading.Thread(target=answer) for _ in range(THREADS)] + [threading.Thread(target=beats)]
for thread in threads:
    thread.start()
work.ready()
while work.has_more():
    number += 1
    numbers.put(number)
    wrong += not work.is_right(*results.get())
for _ in range(THREADS):
    numbers.put(None)
for thread in threads:
    thread.join()
work.end(wrong)
