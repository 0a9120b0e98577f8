"""turnlog completion: print the script that enables shell completion."""

import click
from click.shell_completion import get_completion_class

from turnlog.cli.direct import COMPLETE
from turnlog.cli.terminal import echo


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script for bash, zsh or fish.

    Completes commands, options, sessions, projects, tools, models and trace targets.

    \b
    Examples:
      eval "$(turnlog completion bash)"    # in ~/.bashrc
      eval "$(turnlog completion zsh)"     # in ~/.zshrc
      turnlog completion fish > ~/.config/fish/completions/turnlog.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click has a class for each of the choices"
    echo(kind(ctx.find_root().command, {}, "turnlog", COMPLETE).source())
