"""A cluster of dask's with one process for two threads, which is looked into."""

import os

import work
from distributed import Client, LocalCluster


def piece(number):
    import work

    return os.getpid(), work.piece(number)


if __name__ == "__main__":
    wrong = number = 0
    with (
        LocalCluster(1, threads_per_worker=2, dashboard_address=None, silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        pid, _ = client.submit(piece, 1).result()
        work.ready(pid)
        while work.has_more():
            numbers = range(number, number + 10)
            results = client.gather(client.map(piece, numbers, pure=False))
            wrong += sum(not work.is_right(one, result) for one, (_, result) in zip(numbers, results, strict=True))
            number += 10
    work.end(wrong)
