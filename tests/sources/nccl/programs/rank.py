"""A rank of a job: it maps a library that names a version of NCCL, and answers as NCCL's RAS does.

Written after NCCL's public description (docs/userguide/source/troubleshooting/ras.rst). Arguments: the library to map,
the port, and a folder with the answers: the first question of all ranks gets the file `1`, the next one `2`, and every
further one the last.
"""

import mmap
import socket
import sys
from pathlib import Path

library, port, answers = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
with library.open("rb") as file:
    loaded = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)


def answer() -> bytes:
    number = 1
    while True:
        try:
            (answers / f"asked-{number}").mkdir()
            break
        except FileExistsError:
            number += 1
    while not (answers / str(number)).exists():
        number -= 1
    return (answers / str(number)).read_bytes()


def serve(connection: socket.socket) -> None:
    is_json = False
    for line in connection.makefile("rb"):
        command = line.decode().strip().lower()
        if command.startswith("client protocol "):
            connection.sendall(b"SERVER PROTOCOL 2\n")
        elif command == "set format json":
            is_json = True
            connection.sendall(b"OK\n")
        elif command == "status":
            connection.sendall(answer() if is_json else b"NCCL version 2.29.3 compiled with CUDA 13.0\n")
            return
        else:
            connection.sendall(b"ERROR: Unknown command\n")


with socket.socket() as server:
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("127.0.0.1", port))
    server.listen()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        connection, _ = server.accept()
        with connection:
            serve(connection)
