"""Write a page, whole or not at all."""

from importlib.util import find_spec
from pathlib import Path

from tokenweir.errors import BadInput


def need_pages() -> None:
    """Raises `BadInput` where the packages that make pages are not installed."""
    missing = [name for name in ("jinja2", "matplotlib") if find_spec(name) is None]
    if missing:
        raise BadInput(
            f"a page needs {' and '.join(missing)}: install it, pip install 'tokenweir[review]'"
        )


def write_page(path: Path, text: str) -> None:
    """Raises `BadInput` when the file cannot be written; what was there before stays then."""
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise BadInput(
            f"{path}: {error.strerror}; name a file in a folder that is there"
        ) from error
    finally:
        part.unlink(missing_ok=True)
