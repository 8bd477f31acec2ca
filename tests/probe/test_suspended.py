"""asyncio's tasks that wait: Python keeps them in sets, and from 3.14 on in a list that only C can read."""

import asyncio
import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from gputui.probe.pace.meter import Meter
from gputui.probe.search.suspended import REST, Suspended


class OwnTask(asyncio.Task):
    """A task of a class of the program."""


async def hold(number):
    await asyncio.Event().wait()
    return number


@contextmanager
def waiting(number: int, cls: type = asyncio.Task) -> Iterator[None]:
    loop = asyncio.new_event_loop()
    loop.set_task_factory(lambda loop, coroutine, **options: cls(coroutine, loop=loop, **options))
    tasks = [loop.create_task(hold(number))]
    loop.run_until_complete(asyncio.sleep(0))
    try:
        yield
    finally:
        tasks.pop().cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def numbers(suspended: Suspended, meter: Meter) -> set[int]:
    """What the functions of the tasks found hold: each look has some time more than one that visits all objects."""
    tasks, _ = suspended.stacks_of_tasks(meter)
    frames = [frame for stack in tasks.values() for frame in stack()]
    return {frame.f_locals["number"] for frame in frames if frame.f_code is hold.__code__}


def test_looks_find_the_tasks_that_wait_and_new_ones_a_few_looks_later():
    suspended = Suspended()
    with waiting(1), waiting(2, OwnTask):
        assert numbers(suspended, Meter(10)) == {1, 2}
        with waiting(3):
            looks = [numbers(suspended, Meter(10)) for _ in range(REST + 1)]
            assert all(look >= {1, 2} for look in looks)
            assert looks[-1] == {1, 2, 3}
    assert all(numbers(suspended, Meter(10)) == set() for _ in range(2))


def test_a_look_without_time_to_visit_all_objects_knows_the_tasks_of_an_earlier_one():
    suspended = Suspended()
    with waiting(1):
        numbers(suspended, Meter(10))
        assert all(numbers(suspended, Meter(0)) == {1} for _ in range(REST + 2))


def test_no_task_is_kept_alive():
    suspended = Suspended()
    with waiting(1):
        tasks, _ = suspended.stacks_of_tasks(Meter(10))
        kept = [weakref.ref(stack.args[0]) for stack in tasks.values()]
        del tasks
    gc.collect()
    assert [task() for task in kept] == [None]
