"""A worker of celery's with a pool of two processes; one of these is looked into."""

import os
import threading
import time

import celery
import work
from celery.contrib.testing import worker

os.makedirs("queue", exist_ok=True)
application = celery.Celery("application", broker="filesystem://", backend="file://" + os.getcwd() + "/results")
os.makedirs("results", exist_ok=True)
application.conf.broker_transport_options = dict.fromkeys(("data_folder_in", "data_folder_out"), "queue")
application.conf.worker_hijack_root_logger = False


@application.task(name="piece")
def piece(number):
    return os.getpid(), work.piece(number)


def beats():
    while work.has_more():
        began_s = time.monotonic()
        time.sleep(work.BEAT_S)
        work.beat(began_s)


wrong = number = 0
with worker.start_worker(application, pool="prefork", concurrency=2, perform_ping_check=False, loglevel="ERROR"):
    pid, _ = piece.delay(1).get(timeout=600)
    threading.Thread(target=beats).start()
    work.ready(pid)
    while work.has_more():
        number += 1
        _, result = piece.delay(number).get(timeout=600, interval=0.01)
        wrong += not work.is_right(number, result)
work.end(wrong)
