"""trio: tasks of a nursery hand pieces of work to each other, and to trio's threads."""

import time

import trio
import work

wrong = 0


async def produce(channel):
    number = 0
    async with channel:
        while work.has_more():
            number += 1
            await channel.send(number)


async def consume(channel):
    global wrong
    async for number in channel:
        in_thread = number % 3 == 0
        result = await trio.to_thread.run_sync(work.piece, number) if in_thread else work.piece(number)
        wrong += not work.is_right(number, result)


async def beats():
    while work.has_more():
        began_s = time.monotonic()
        await trio.sleep(work.BEAT_S)
        work.beat(began_s)


async def main():
    sender, receiver = trio.open_memory_channel(4)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(beats)
        nursery.start_soon(produce, sender)
        for _ in range(3):
            nursery.start_soon(consume, receiver.clone())
        work.ready()


trio.run(main)
work.end(wrong)
