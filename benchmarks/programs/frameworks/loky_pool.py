"""joblib with loky's processes; one of these is looked into."""

import os

import joblib
import work


def piece(number):
    return os.getpid(), work.piece(number)


wrong = number = 0
with joblib.Parallel(n_jobs=2, backend="loky") as parallel:
    (pid, _), *_ = parallel(joblib.delayed(piece)(one) for one in range(4))
    work.ready(pid)
    while work.has_more():
        numbers = range(number, number + 20)
        results = parallel(joblib.delayed(piece)(one) for one in numbers)
        wrong += sum(not work.is_right(one, result) for one, (_, result) in zip(numbers, results, strict=True))
        number += 20
work.end(wrong)
