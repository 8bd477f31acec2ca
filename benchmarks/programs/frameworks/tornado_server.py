"""tornado serves, and its own client asks."""

import asyncio
import time

import tornado.httpclient
import tornado.httpserver
import tornado.testing
import tornado.web
import work

wrong = 0


class Handler(tornado.web.RequestHandler):
    async def get(self, number):
        self.write(str(work.piece(int(number))))


async def beats():
    while work.has_more():
        began_s = time.monotonic()
        await asyncio.sleep(work.BEAT_S)
        work.beat(began_s)


async def main():
    global wrong
    socket, port = tornado.testing.bind_unused_port()
    server = tornado.httpserver.HTTPServer(tornado.web.Application([(r"/(\d+)", Handler)]))
    server.add_sockets([socket])
    client = tornado.httpclient.AsyncHTTPClient()
    beating = asyncio.create_task(beats())
    work.ready()
    number = 0
    while work.has_more():
        number += 1
        response = await client.fetch(f"http://127.0.0.1:{port}/{number}")
        wrong += not work.is_right(number, int(response.body))
    await beating
    server.stop()
    await server.close_all_connections()


asyncio.run(main())
work.end(wrong)
