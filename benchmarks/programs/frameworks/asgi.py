"""uvicorn serves an ASGI application; a thread asks it. Run with the name of the loop: asyncio or uvloop."""

import asyncio
import http.client
import sys
import threading
import time

import uvicorn
import work

wrong = 0


async def application(scope, _receive, send):
    if scope["type"] != "http":
        return
    body = str(work.piece(int(scope["path"][1:]))).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def ask(port):
    global wrong
    number = 0
    connection = http.client.HTTPConnection("127.0.0.1", port)
    while work.has_more():
        number += 1
        connection.request("GET", f"/{number}")
        wrong += not work.is_right(number, int(connection.getresponse().read()))
    connection.close()
    server.should_exit = True


async def beats():
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    threading.Thread(target=ask, args=(port,)).start()
    work.ready()
    while not server.should_exit:
        began_s = time.monotonic()
        await asyncio.sleep(work.BEAT_S)
        work.beat(began_s)


async def main():
    await asyncio.gather(server.serve(), beats())


server = uvicorn.Server(uvicorn.Config(application, port=0, loop=sys.argv[1], log_level="warning", lifespan="off"))
if sys.argv[1] == "uvloop":
    import uvloop

    uvloop.run(main())
else:
    asyncio.run(main())
work.end(wrong)
