"""`tokenweir simulate`: its options and its help."""

from pathlib import Path
from typing import Any

import click

from tokenweir.cli.options import OUTPUT


@click.command()
@click.argument("file", metavar="SCENARIO", type=click.Path(path_type=Path))
@click.option("--quick", is_flag=True, help="The scaled-down size.")
@click.option("--seed", type=click.IntRange(0, 2**32), metavar="N", help="Else the scenario's.")
@click.option(
    "--csv", type=click.Path(path_type=Path), metavar="FILE", help="Write every second of each run."
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE.png",
    help="Draw the runs side by side.",
)
@OUTPUT
def simulate(**given: Any) -> int:
    """Run a scenario in virtual time; show its figures beside the published ones and their bounds.

    Virtual GPU pools, gateways with the SDK's admission, and the policy that decides live. The
    same seed gives the same output. docs/simulator.md says what a scenario may hold.

    Exit code 1 when a figure is outside of its bounds.

    \b
    Example:
      tokenweir simulate scenarios/cross-class.yaml --plot cross-class.png
    """
    try:
        from tokenweir.cli.simulate import scenario
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"{error.name} is missing: pip install 'tokenweir[sim]' has what simulations need"
        ) from error
    return scenario.run(**given)
