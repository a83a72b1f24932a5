"""The reference for costs: a standard library process that only changes the framing (``python reframe.py AGENT...``).

Lines of the agent become ``Content-Length`` frames, one write a read; what comes on standard input goes to the agent as it is.
"""

import asyncio
import os
import sys
from typing import cast


class Reframe(asyncio.SubprocessProtocol):
    def __init__(self) -> None:
        self.rest = b""
        self.over = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        *lines, self.rest = (self.rest + data).split(b"\n")
        out = memoryview(b"".join([b"Content-Length: %d\r\n\r\n%b" % (len(line), line) for line in lines]))
        while out:
            out = out[os.write(1, out) :]

    def process_exited(self) -> None:
        self.over.set()


async def main() -> None:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(Reframe, *sys.argv[1:], stderr=None)
    agent = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
    loop.add_reader(0, lambda: agent.write(data) if (data := os.read(0, 65536)) else agent.close())
    await protocol.over.wait()


asyncio.run(main())
