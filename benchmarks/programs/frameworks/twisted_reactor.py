"""twisted's reactor: a protocol on a socket, and work in the reactor's threads."""

import time

import work
from twisted.internet import defer, endpoints, protocol, reactor, task, threads
from twisted.protocols.basic import LineReceiver

wrong = 0


class Answer(LineReceiver):
    def lineReceived(self, line):
        self.sendLine(str(work.piece(int(line))).encode())


class Ask(LineReceiver):
    def connectionMade(self):
        self.number, self.closed = 0, defer.Deferred()
        self.ask()

    def ask(self):
        self.number += 1
        self.sendLine(str(self.number).encode())

    def lineReceived(self, line):
        global wrong
        wrong += not work.is_right(self.number, int(line))
        if work.has_more():
            self.ask()
        else:
            self.transport.loseConnection()

    def connectionLost(self, reason=protocol.connectionDone):
        self.closed.callback(reason)


@defer.inlineCallbacks
def in_threads():
    global wrong
    number = 0
    while work.has_more():
        number += 1
        result = yield threads.deferToThread(work.piece, number)
        wrong += not work.is_right(number, result)


@defer.inlineCallbacks
def beats():
    while work.has_more():
        began_s = time.monotonic()
        yield task.deferLater(reactor, work.BEAT_S)
        work.beat(began_s)


@defer.inlineCallbacks
def main(_reactor):
    factory = protocol.Factory.forProtocol(Answer)
    port = yield endpoints.TCP4ServerEndpoint(reactor, 0, interface="127.0.0.1").listen(factory)
    there = endpoints.TCP4ClientEndpoint(reactor, "127.0.0.1", port.getHost().port)
    asking = yield endpoints.connectProtocol(there, Ask())
    work.ready()
    yield defer.DeferredList([in_threads(), beats(), asking.closed])
    yield port.stopListening()


try:
    task.react(main)
except SystemExit:
    work.end(wrong)
