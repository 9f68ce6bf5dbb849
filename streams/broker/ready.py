"""Ask a broker, with a client's call, whether it does its work."""

import socket
import struct
from io import BytesIO
from typing import Any

from aiokafka.protocol.metadata import MetadataRequest_v1

ANSWER_S = 2.0


def serves(port: int) -> bool:
    """Tell whether the broker on 127.0.0.1 answers, and counts itself among the living.

    A broker accepts connections before its controller lets it work; until then the metadata
    lists no broker.
    """
    try:
        with socket.create_connection(("127.0.0.1", port), ANSWER_S) as connection:
            return bool(_metadata(connection).brokers)
    except (OSError, struct.error):
        return False


def _metadata(connection: socket.socket) -> Any:
    request = MetadataRequest_v1(topics=[])
    body = request.build_request_header(1, "ready").encode() + request.encode()
    connection.sendall(struct.pack(">i", len(body)) + body)
    with connection.makefile("rb") as stream:
        (size,) = struct.unpack(">i", stream.read(4))
        answer = BytesIO(stream.read(size))
    request.parse_response_header(answer)
    return request.RESPONSE_TYPE.decode(answer)
