"""Write a record of every kind as today's schemas encode it: `python -m tests.unit.corpus.write`.

Run it after a new version of a schema has been added. What is there already is never written
again: it stands for records that lie in somebody's log.
"""

import json
from dataclasses import asdict
from pathlib import Path

from tests.unit.corpus.samples import samples
from tokenweir.wire import encode, schemas

HERE = Path(__file__).parent


def plain(value: object) -> object:
    """A record as JSON has it: bytes in hex."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value


def write_missing() -> list[str]:
    """The names of the files that were not there yet."""
    versions = {name: version for name, version, _ in schemas()}
    written = []
    for name, record in samples().items():
        file = HERE / f"{name}.v{versions[name.split('-')[0]]}.bin"
        if not file.exists():
            file.write_bytes(encode(record))
            expected = json.dumps(plain(asdict(record)), indent=1, ensure_ascii=False)  # type: ignore[call-overload]  # every sample is a dataclass
            file.with_suffix(".json").write_text(expected + "\n", encoding="utf-8")
            written.append(file.name)
    return written


if __name__ == "__main__":
    print("\n".join(write_missing()) or "nothing is missing")
