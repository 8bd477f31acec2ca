"""A debugger's client: it stops a program of debugpy's at a line, now and then, and has it go on. PORT FILE LINE."""

import json
import socket
import sys

port, path, line = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
connection = socket.create_connection(("127.0.0.1", port))
stream = connection.makefile("rwb")


def send(command, **arguments):
    body = json.dumps({"seq": 1, "type": "request", "command": command, "arguments": arguments}).encode()
    stream.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    stream.flush()


def receive():
    length = int(stream.readline().split()[1])
    stream.readline()
    return json.loads(stream.read(length))


send("initialize", adapterID="debugger")
send("attach", justMyCode=False)
stops = 0
try:
    while True:
        message = receive()
        if message.get("event") == "initialized":
            breakpoints = [{"line": line, "condition": "number % 40 == 0"}]
            send("setBreakpoints", source={"path": path}, breakpoints=breakpoints)
            send("configurationDone")
        elif message.get("event") == "stopped":
            stops += 1
            send("continue", threadId=message["body"]["threadId"])
except (IndexError, OSError):
    print(stops)
