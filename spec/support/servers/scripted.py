"""Servers that answer what a spec wants: each is a proxy in front of a real etcd.

scripted.lua runs this program, and describes what it can do. The program answers each line of
input, the JSON list [command, server, ...], with one line of JSON. "start" starts the server with a
new number; the other commands are methods of Server. Their argument `name` is the last part of the
name of a gRPC method, such as "Txn". Calls and messages that no order changes are forwarded. Unary
calls and streams are treated alike.
"""
import asyncio
import collections
import json
import sys
import time

import grpc.aio

STATUS = {status.value[0]: status for status in grpc.StatusCode}

Order = collections.namedtuple("Order", "when status text")
PASS = Order("pass", 0, "")


# ---- messages of etcd ----

def read_varint(message, at):
    number = shift = 0
    while message[at] >= 0x80:
        number |= (message[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return number | message[at] << shift, at + 1


def hide(message, path, at, end):
    """Gives the fields at path, such as [1, 3], the number 15, which no message of etcd has: readers
    skip them. Between at and end are fields with integers (wire type 0) or bytes (2)."""
    while at < end:
        tag_at = at
        tag, at = read_varint(message, at)
        value, at = read_varint(message, at)
        content_end = at + value if tag & 7 == 2 else at
        if tag >> 3 == path[0] and path[1:]:
            hide(message, path[1:], at, content_end)
        elif tag >> 3 == path[0]:
            message[tag_at] = 15 << 3 | tag & 7
        at = content_end


def read_file(path):
    with open(path, "rb") as file:
        return file.read()


def changed(message, order):
    if order.when == "omitted":
        message = bytearray(message)
        hide(message, [int(number) for number in order.text.split(".")], 0, len(message))
        return bytes(message)
    # etcd writes the header first: its tag, one byte with the length of the rest, and the rest
    kept = {"forged": message[:2 + message[1]], "extended": message, "replaced": b""}[order.when]
    return kept + read_file(order.text)


# ---- calls ----

class Method:
    """The calls of one method."""

    def __init__(self):
        self.order, self.times = PASS, 0  # times: to how many calls the order still applies
        self.calls = 0
        self.arrived = 0  # when a client's last message came (CLOCK_MONOTONIC)
        self.heard = 0, ""  # the last error of etcd itself
        self.running = set()  # the calls that etcd has got and that have not ended
        self.late = []  # path, metadata and message of the calls for deliver

    def next_order(self):
        self.calls += 1
        if self.times == 0:
            return PASS
        self.times -= self.times > 0
        return self.order


class Call:
    """A call that etcd gets."""

    def __init__(self, method, order, context):
        self.method, self.order, self.context = method, order, context
        self.sending = asyncio.Lock()  # gRPC sends one message at a time
        self.told = None  # if a message has been held back: the event that ends this
        self.etcd = None
        self.interruption = None  # status and text

    async def send(self, message):
        async with self.sending:
            await self.context.write(message)

    async def forward(self, etcd):
        """Sends the client etcd's answers, and returns the status and text of the call's end."""
        self.etcd = etcd
        try:
            await self.context.send_initial_metadata(())
            async for message in etcd:
                if self.order.when in ("after", "never"):
                    continue
                if self.order.when == "held":
                    self.told = asyncio.Event()
                    await self.told.wait()
                elif self.order != PASS:
                    message = changed(message, self.order)
                self.order = PASS
                await self.send(message)
        except grpc.RpcError as error:
            self.method.heard = error.code().value[0], error.details()
            if self.order.when not in ("after", "never"):
                return self.method.heard
        except asyncio.CancelledError:
            if not self.interruption:
                raise
            return self.interruption
        finally:
            etcd.cancel()
        if self.order.when == "never":
            await asyncio.Event().wait()
        return self.order.status, self.order.text


# ---- servers ----

class Server(grpc.GenericRpcHandler):
    def __init__(self, etcd, streams):
        self.methods = collections.defaultdict(Method)
        self.channel = grpc.aio.insecure_channel(etcd, [("grpc.use_local_subchannel_pool", 1)])
        # 0 strikes: clients may send HTTP/2 pings as often as they want
        self.server = grpc.aio.server(handlers=[self], options=[
            ("grpc.http2.max_ping_strikes", 0), ("grpc.max_concurrent_streams", streams)])
        self.port = self.server.add_insecure_port("127.0.0.1:0")

    def service(self, details):
        async def serve(requests, context):
            code, text = await self.serve(details.method, requests, context)
            if code != 0:
                await context.abort(STATUS[code], text)
        return grpc.stream_stream_rpc_method_handler(serve)

    async def serve(self, path, requests, context):
        """Serves a call, and returns the status and text of its end."""
        method = self.methods[path.rsplit("/", 1)[1]]
        order = method.next_order()
        metadata = [pair for pair in context.invocation_metadata()
                    if pair[0] in ("token", "hasleader")]

        async def requests_of_client():
            async for request in requests:
                method.arrived = time.monotonic()
                yield request

        if order.when == "late":
            method.late.append((path, metadata, await context.read()))
        if order.when in ("late", "before"):
            return order.status, order.text
        call = Call(method, order, context)
        method.running.add(call)
        try:
            return await call.forward(self.channel.stream_stream(path)(
                requests_of_client(), timeout=context.time_remaining(), metadata=metadata))
        finally:
            method.running.remove(call)

    # -- commands --

    async def answer(self, name, times, *order):
        self.methods[name].times, self.methods[name].order = times, Order(*order)

    async def deliver(self, name):
        late, self.methods[name].late = self.methods[name].late, []
        await asyncio.gather(*(self.channel.unary_unary(path)(request, metadata=metadata)
                               for path, metadata, request in late), return_exceptions=True)
        return len(late)

    def held_calls(self, name):
        return [call for call in self.methods[name].running if call.told and not call.told.is_set()]

    async def held(self, name):
        return len(self.held_calls(name))

    async def tell(self, name):
        for call in self.held_calls(name):
            call.told.set()

    async def push(self, name, path):
        message, running = read_file(path), list(self.methods[name].running)
        await asyncio.gather(*(call.send(message) for call in running), return_exceptions=True)
        return len(running)

    async def interrupt(self, name, status, text):
        for call in self.methods[name].running:
            call.interruption = status, text
            call.etcd.cancel()

    async def forward(self):
        for method in self.methods.values():
            method.times = 0

    async def calls(self, name):
        return self.methods[name].calls

    async def arrived(self, name):
        return self.methods[name].arrived

    async def heard(self, name):
        return self.methods[name].heard

    async def stop(self):
        await self.server.stop(None)
        await self.channel.close()


async def main():
    servers, loop = {}, asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.buffer.readline):
        command, number, *arguments = json.loads(line)
        if command == "start":
            servers[number] = Server(*arguments)
            await servers[number].server.start()
            answer = servers[number].port
        else:
            answer = await getattr(servers[number], command)(*arguments)
        print(json.dumps([answer]), flush=True)


asyncio.run(main())
