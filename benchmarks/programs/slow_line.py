"""A command whose input and output take their time, as over a long line: `slow_line.py DELAY_S BITS_PER_S COMMAND...`.

The delay is that of each direction, and so is the rate. OpenSSH runs it as a ProxyCommand.
"""

import os
import queue
import subprocess
import sys
import threading
import time

CHUNK_BYTES = 4096
BITS = 8


def relay(source: int, sink: int, delay_s: float, bits_per_s: float) -> None:
    """Hand on what is read, when it would have arrived."""
    arrivals: queue.Queue[tuple[float, bytes]] = queue.Queue()

    def write() -> None:
        while True:
            when, data = arrivals.get()
            time.sleep(max(0.0, when - time.monotonic()))
            if not data:
                os.close(sink)
                return
            os.write(sink, data)

    threading.Thread(target=write, daemon=True).start()
    free_at = 0.0
    while True:
        data = os.read(source, CHUNK_BYTES)
        free_at = max(free_at, time.monotonic()) + len(data) * BITS / bits_per_s
        arrivals.put((free_at + delay_s, data))
        if not data:
            return


def main() -> None:
    delay_s, bits_per_s, *command = sys.argv[1:]
    times = float(delay_s), float(bits_per_s)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        there = process.stdin.fileno()
        threading.Thread(target=relay, args=(0, os.dup(there), *times), daemon=True).start()
        process.stdin.close()
        relay(process.stdout.fileno(), 1, *times)
        process.wait()


if __name__ == "__main__":
    main()
