"""The commands on presets: their options and their help."""

import click


@click.group()
def presets() -> None:
    """Show specs to begin with, each a file with comments."""


@presets.command("list")
def list_() -> None:
    """List the presets.

    \b
    Example:
      tokenweir presets list
    """
    from tokenweir.cli.specs import presets

    presets.show_list()


@presets.command()
@click.argument("name")
def show(name: str) -> None:
    """Print a preset, or with .ladder its gateways' ladder.

    \b
    Example:
      tokenweir presets show internal-platform > chat.yaml
      tokenweir presets show internal-platform.ladder > ladder.yaml
    """
    from tokenweir.cli.specs import presets

    presets.show(name)
