"""What a server on loopback answers, red or green."""

from urllib.error import HTTPError
from urllib.request import urlopen


def get(port: int, path: str) -> tuple[int, str]:
    """Status and body, whatever the status is."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()
