"""gevent in the place of threads, sockets and time: greenlets ask a server of greenlets."""

from gevent import monkey

monkey.patch_all()

import socket
import time

import gevent
import work
from gevent.pool import Pool
from gevent.server import StreamServer

wrong = 0


def answer(connection, _address):
    with connection.makefile("rw") as file:
        for line in file:
            file.write(f"{work.piece(int(line))}\n")
            file.flush()


def ask(first):
    global wrong
    with socket.create_connection(("127.0.0.1", server.server_port)) as connection, connection.makefile("rw") as file:
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


server = StreamServer(("127.0.0.1", 0), answer)
server.start()
pool = Pool(5)
pool.map_async(ask, range(4))
pool.spawn(beats)
gevent.sleep(0)
work.ready()
pool.join()
server.stop()
work.end(wrong)
