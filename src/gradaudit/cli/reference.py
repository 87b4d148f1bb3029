"""The reference of the command line, docs/cli.md, from the commands themselves.

``python -m gradaudit.cli.reference > docs/cli.md`` writes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator

import click

from gradaudit.cli.exit_codes import ExitCode
from gradaudit.cli.guard import DEBUG_VARIABLE
from gradaudit.cli.program import program
from gradaudit.cli.verb import Verb

_HEADER = """# The command line

Generated from the commands by `python -m gradaudit.cli.reference`. `gradaudit` and
`python -m gradaudit` are the same; every verb has `--help`.
"""

_CONDUCT = f"""## Conduct

- Results go to stdout; progress and errors go to stderr. An error is one line; the environment
  variable `{DEBUG_VARIABLE}=1` shows the traceback as well.
- The first Ctrl-C or SIGTERM ends a search with what it has found so far, which is written and
  reported (exit code 3). A second one aborts at once.
- Recovered records are personal data. They are never printed, and are redacted in reports, unless
  `--show-records` is given. `--out` keeps them in a file; `--discard-records` does not.
- No file that is read is ever overwritten. Places to write to are checked before the search, by
  writing there. The folder that a file goes to is made if need be; the folder above must exist.
- A given network or loss that the update contradicts gives a warning on stderr, also with `--quiet`
  and `--json`, and stands among the result's assumptions.
- `NO_COLOR` is respected. Without a terminal there is a line of progress every ten seconds; none
  with `--json` or `--quiet`.
"""


def reference() -> str:
    """The reference as Markdown.

    Example:
        >>> reference().splitlines()[0]
        '# The command line'
    """
    parts = [_HEADER]
    for name, command in program.commands.items():
        parts.extend(_verb(name, command))
    codes = "\n".join(f"| {int(code)} | {code.meaning} |" for code in ExitCode)
    parts.append(f"## Exit codes\n\n| Code | Meaning |\n|---|---|\n{codes}\n")
    parts.append(_CONDUCT)
    return "\n".join(parts)


def _verb(name: str, command: click.Command) -> Iterator[str]:
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    words = " ".join([name, "[OPTIONS]", *(p.metavar or str(p.name).upper() for p in arguments)])
    yield f"## gradaudit {name}\n"
    yield f"```\ngradaudit {words}\n```\n"
    paragraphs = (command.help or "").split("\n\n")
    yield "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs) + "\n"
    yield "| Option | Meaning |\n|---|---|"
    for option in command.params:
        if isinstance(option, click.Option):
            yield _row(option)
    yield ""
    if isinstance(command, Verb):
        lines = [f"# {purpose}\n{example}" for purpose, example in command.examples]
        yield "```bash\n" + "\n\n".join(lines) + "\n```\n"


def _row(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in sorted(option.opts, key=len, reverse=True))
    if option.metavar:
        names += f" `{option.metavar}`"
    text = option.help or ""
    if option.show_default:
        text += f" Default: `{option.default}`."
    if option.required:
        text += " Required."
    return f"| {names} | {text} |"


if __name__ == "__main__":
    click.echo(reference(), nl=False)
