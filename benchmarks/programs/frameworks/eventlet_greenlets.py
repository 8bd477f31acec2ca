"""eventlet in the place of threads, sockets and time: green threads ask a server of green threads."""

import eventlet

eventlet.monkey_patch()

import socket
import time

import work

wrong = 0


def answer(connection, _address):
    with connection, connection.makefile("rw") as file:
        for line in file:
            file.write(f"{work.piece(int(line))}\n")
            file.flush()


def ask(first):
    global wrong
    with socket.create_connection(listener.getsockname()) as connection, connection.makefile("rw") as file:
        number = first
        while work.has_more():
            number += 4
            file.write(f"{number}\n")
            file.flush()
            wrong += not work.is_right(number, int(file.readline()))


def beats():
    while work.has_more():
        began_s = time.monotonic()
        time.sleep(work.BEAT_S)
        work.beat(began_s)


listener = eventlet.listen(("127.0.0.1", 0))
server = eventlet.spawn(eventlet.serve, listener, answer)
pool = eventlet.GreenPool(5)
for first in range(4):
    pool.spawn(ask, first)
pool.spawn(beats)
eventlet.sleep(0)
work.ready()
pool.waitall()
server.kill()
work.end(wrong)
