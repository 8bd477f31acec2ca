"""An actor of ray's, in a process of its own, which is looked into."""

import os

import ray
import work


@ray.remote
class Worker:
    def piece(self, number):
        return os.getpid(), work.piece(number)


wrong = number = 0
ray.init(
    num_cpus=2,
    include_dashboard=False,
    log_to_driver=False,
    logging_level="ERROR",
    runtime_env={"env_vars": dict(os.environ)},
)
worker = Worker.remote()
pid, _ = ray.get(worker.piece.remote(1))
work.ready(pid)
while work.has_more():
    number += 1
    _, result = ray.get(worker.piece.remote(number))
    wrong += not work.is_right(number, result)
ray.shutdown()
work.end(wrong)
