"""WebSockets: `serve PORT` says back what it hears; `talk URL` and `crowd URL` try it."""

import asyncio
import sys

import websockets

BIG = 4 << 20


async def echo(socket):
    async for message in socket:
        await socket.send(message)


async def serve(port):
    async with websockets.serve(echo, "127.0.0.1", int(port), max_size=BIG, subprotocols=["chat"]):
        await asyncio.Future()


def connect(url):
    return websockets.connect(url, max_size=BIG, subprotocols=["chat"], open_timeout=20)


async def talk(url):
    async with connect(url) as socket:
        assert socket.subprotocol == "chat", socket.subprotocol
        for n in range(200):
            await socket.send(f"message {n}")
            assert await socket.recv() == f"message {n}"
        big = bytes(range(256)) * (1 << 12)
        await socket.send(big)
        assert await socket.recv() == big
        await (await socket.ping())
    assert socket.close_code == 1000, socket.close_code
    print("talk: fine")


async def crowd(url):
    """Two places: a third conversation has to wait until one of them ends."""
    async with connect(url) as first:
        async with connect(url) as second:
            for socket in (first, second):
                await socket.send("x")
                assert await socket.recv() == "x"
            try:
                async with connect(url):
                    raise AssertionError("a third one")
            except websockets.InvalidStatus as refused:
                assert refused.response.status_code == 429, refused
        for _ in range(200):
            try:
                async with connect(url) as third:
                    await third.send("x")
                    assert await third.recv() == "x"
                    break
            except websockets.InvalidStatus:
                await asyncio.sleep(0.05)
        else:
            raise AssertionError("no place, though one was left")
    print("crowd: fine")


asyncio.run({"serve": serve, "talk": talk, "crowd": crowd}[sys.argv[1]](sys.argv[2]))
