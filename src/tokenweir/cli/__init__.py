"""The command line: `tokenweir`. Here is how it starts and how it ends; `commands` has the rest."""

import os
import sys

INTERRUPTED = 130  # as shells say it


def main() -> None:
    """Run the command that the arguments name, and exit: 0 well, 1 an error, 2 wrong usage."""
    sys.exit(_run())


def _run() -> int:
    try:
        import click

        from tokenweir.cli.commands import tokenweir
    except ModuleNotFoundError as error:
        # A gateway's installation has this script too, and not what it needs.
        need = "pip install 'tokenweir[cli]' has what this command needs"
        print(f"{error.name} is missing: {need}", file=sys.stderr)
        return 1
    from tokenweir.errors import TokenweirError

    try:
        return tokenweir.main(prog_name="tokenweir", standalone_mode=False) or 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except TokenweirError as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does; there is nobody to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
