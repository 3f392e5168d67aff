"""Lines of text over a TCP connection."""

from __future__ import annotations

import asyncio

from overtrick.core import UserError
from overtrick.interactive.bridge_table.messages import MAX_LINE_LENGTH, ProtocolError

SEND_SECONDS = 60.0  # longest wait until the other end reads


class ConnectionLost(Exception):
    """The other end has closed the connection, or does not read from it."""


class LineStream:
    """Lines of ASCII text that end with CR LF, over one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, line: str) -> None:
        """Send one line. Raises ConnectionLost if the other end has gone, or reads nothing."""
        try:
            self.writer.write(f"{line}\r\n".encode("ascii", "replace"))
            await asyncio.wait_for(self.writer.drain(), SEND_SECONDS)
        except OSError:  # TimeoutError is one
            raise ConnectionLost from None

    async def receive(self, seconds: float | None = None) -> str:
        """Return the next line that is not empty, without its end.

        seconds: TimeoutError if no line comes in this time; None waits forever. Raises
        ConnectionLost at the end of the connection, and ProtocolError for a line that is too long.
        """
        return await asyncio.wait_for(self._receive(), seconds)

    async def _receive(self) -> str:
        while True:
            try:
                line = await self.reader.readuntil(b"\n")
            except asyncio.LimitOverrunError:
                await self._skip_line()
                raise ProtocolError(f"a line has at most {MAX_LINE_LENGTH} characters") from None
            except (asyncio.IncompleteReadError, OSError):
                raise ConnectionLost from None
            if text := line.decode("ascii", "replace").strip():
                return text

    async def _skip_line(self) -> None:
        """Read and drop the rest of a line that is too long."""
        while True:
            try:
                await self.reader.readuntil(b"\n")
                return
            except asyncio.LimitOverrunError as error:
                await self.reader.readexactly(error.consumed)
            except (asyncio.IncompleteReadError, OSError):
                raise ConnectionLost from None

    @property
    def ended(self) -> bool:
        """Whether the connection has been closed, at this end or at the other."""
        return self.reader.at_eof() or self.writer.is_closing()

    def close(self) -> None:
        """Close the connection."""
        self.writer.close()


async def open_stream(host: str, port: int) -> LineStream:
    """Connect to a server. Raises UserError if there is none."""
    try:
        return LineStream(*await asyncio.open_connection(host, port, limit=MAX_LINE_LENGTH))
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(f"no table manager at {host}:{port}: {why}") from None
