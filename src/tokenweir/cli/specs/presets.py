"""`tokenweir presets`: specs to begin with, as files with comments."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from tokenweir.cli.show import Column, show_table
from tokenweir.errors import BadInput

SPEC = ".yaml"


def show_list() -> None:
    """Print each preset and what it is for: the first line of its comments."""
    rows = [[name, _purpose(text)] for name, text in sorted(texts().items()) if "." not in name]
    show_table([Column("PRESET"), Column("FOR")], rows)


def show(name: str) -> None:
    """Print a preset's file as it is."""
    known = texts()
    if name not in known:
        raise BadInput(f"preset {name!r}: allowed are {', '.join(sorted(known))}")
    click.echo(known[name], nl=False)


def texts() -> dict[str, str]:
    """The presets' files by name, without `.yaml`; a ladder's name ends in `.ladder`."""
    found = [file for file in _folder().iterdir() if file.name.endswith(SPEC)]
    return {file.name.removesuffix(SPEC): file.read_text(encoding="utf-8") for file in found}


def _folder() -> Traversable:
    # In the wheel they lie inside the package, in a checkout at the top.
    installed = files("tokenweir") / "presets"
    return installed if installed.is_dir() else Path(__file__).parents[4] / "presets"


def _purpose(text: str) -> str:
    return text.splitlines()[0].removeprefix("# ").split(":")[0].rstrip(".")
