"""``tilewright completion``: completion for shells, made from the tables of the parsers."""

from __future__ import annotations

import argparse
import functools
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tilewright.backends.registry import backend_names
from tilewright.cli.errors import UsageError
from tilewright.cli.kernels import kernels_in
from tilewright.cli.output import say
from tilewright.cli.parsers import add_command
from tilewright.sanitizer.categories import CATEGORIES

_EPILOG = """\
bash   echo 'eval "$(tilewright completion bash)"' >> ~/.bashrc
zsh    echo 'eval "$(tilewright completion zsh)"' >> ~/.zshrc      after compinit
fish   tilewright completion fish > ~/.config/fish/completions/tilewright.fish
"""
Parsers = Mapping[str, argparse.ArgumentParser]


def add_parser(commands: Any) -> None:
    summary = "print the completion of commands and options for a shell"
    parser = add_command(commands, "completion", summary, functools.partial(_run, commands), _EPILOG)
    parser.add_argument("shell", choices=list(_SHELLS), nargs="?")
    parser.add_argument("--kernels", metavar="FILE", help="print the names of the kernels of a file instead")


def _run(commands: Any, options: argparse.Namespace) -> int:
    if (options.shell is None) == (options.kernels is None):
        raise UsageError("name a shell, or a file by --kernels")
    if options.kernels is not None:
        say("\n".join(kernels_in(options.kernels)))
        return 0
    helps = {action.dest: action.help or "" for action in commands._choices_actions}
    say("\n".join(_SHELLS[options.shell](commands.choices, helps)))
    return 0


def _options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The options of a command; one that takes words as they are has another parser that describes them."""
    actions = (parser.get_default("described") or parser)._actions
    return [action for action in actions if action.option_strings and action.help != argparse.SUPPRESS]


def _words(parser: argparse.ArgumentParser) -> list[str]:
    """The fixed words that may come as arguments, such as the actions of ``cache``."""
    return [word for a in parser._actions if not a.option_strings and a.choices for word in map(str, a.choices)]


def _values(action: argparse.Action) -> list[str]:
    """The words that an option takes, as far as they are known."""
    known = {"backend": backend_names(), "disable": CATEGORIES, "enable": CATEGORIES}
    return list(map(str, action.choices or known.get(action.dest, ())))


def _bash(parsers: Parsers, helps: Mapping[str, str]) -> Iterator[str]:
    yield "_tilewright() {"
    yield '    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=""'
    yield "    COMPREPLY=()"
    yield "    local typed=${COMP_LINE:0:${COMP_POINT:-0}}; typed=${typed##* }"
    yield "    if [[ $typed == *::* ]]; then"
    yield '        COMPREPLY=($(compgen -W "$(tilewright completion --kernels "${typed%%::*}")" -- "${typed##*::}"))'
    yield '        case $COMP_WORDBREAKS in *:*) ;; *) COMPREPLY=("${COMPREPLY[@]/#/${typed%::*}::}") ;; esac'
    yield "        return"
    yield "    fi"
    yield "    if [ $COMP_CWORD -eq 1 ]; then"
    yield f'        COMPREPLY=($(compgen -W {shlex.quote(" ".join([*parsers, "--help", "--version"]))} -- "$word"))'
    yield "        return"
    yield "    fi"
    yield '    case "${COMP_WORDS[1]} $before" in'
    for name, parser in parsers.items():
        for action in _options(parser):
            if _values(action):
                patterns = "|".join(shlex.quote(f"{name} {text}") for text in action.option_strings)
                values = shlex.quote(" ".join(_values(action)))
                yield f'        {patterns}) COMPREPLY=($(compgen -W {values} -- "$word")); return ;;'
    yield "    esac"
    yield '    case "${COMP_WORDS[1]}" in'
    for name, parser in parsers.items():
        found = [text for action in _options(parser) for text in action.option_strings]
        only = ' COMPREPLY=($(compgen -W "$words" -- "$word")); return' if _words(parser) else ""  # and no file
        yield f"        {shlex.quote(name)}) words={shlex.quote(' '.join([*found, *_words(parser)]))};{only} ;;"
    yield "    esac"
    yield '    COMPREPLY=($(compgen -W "$words" -- "$word") $(compgen -f -- "$word"))'
    yield "}"
    yield "complete -o filenames -F _tilewright tilewright"


def _zsh(parsers: Parsers, helps: Mapping[str, str]) -> Iterator[str]:
    yield "#compdef tilewright"
    yield "_tilewright() {"
    yield "    local -a commands options"
    yield "    if (( CURRENT == 2 )); then"
    described = " ".join(shlex.quote(f"{_plain(name)}:{helps[name]}") for name in parsers)
    yield f"        commands=({described})"
    yield "        _describe command commands"
    yield "        return"
    yield "    fi"
    yield "    if [[ $words[CURRENT] == *::* ]]; then"
    yield '        local -a kernels=(${(f)"$(tilewright completion --kernels "${words[CURRENT]%%::*}")"})'
    yield "        compset -P '*::'"
    yield '        compadd -- "$kernels[@]"'
    yield "        return"
    yield "    fi"
    yield '    case "$words[2]" in'
    for name, parser in parsers.items():
        specs = [_zsh_option(text, action) for action in _options(parser) for text in action.option_strings]
        words = _words(parser)
        specs.append(f"*: :({' '.join(words)})" if words else "*:file:_files")
        yield f"        {shlex.quote(name)}) options=({' '.join(map(shlex.quote, specs))}) ;;"
    yield "    esac"
    yield "    shift words; (( CURRENT-- ))"
    yield '    _arguments "$options[@]"'
    yield "}"
    yield "compdef _tilewright tilewright"


def _zsh_option(text: str, action: argparse.Action) -> str:
    repeated = "*" if isinstance(action, argparse._AppendAction) else ""
    spec = f"{repeated}{text}[{_plain(action.help or '')}]"
    if action.nargs == 0:
        return spec
    values = f"({' '.join(_values(action))})" if _values(action) else "_files"
    return f"{spec}:value:{values}"


def _plain(text: str) -> str:
    """``text`` without a meaning for zsh in descriptions."""
    for mark in "\\[]:":
        text = text.replace(mark, f"\\{mark}")
    return text


def _fish(parsers: Parsers, helps: Mapping[str, str]) -> Iterator[str]:
    yield "function __tilewright_kernels"
    yield "    set -l parts (string split -m 1 :: -- (commandline -ct)); and test (count $parts) -eq 2; or return"
    yield '    set -l names (tilewright completion --kernels $parts[1]); and test -n "$names"; or return'
    yield "    printf '%s\\n' $parts[1]::$names"
    yield "end"
    naming = "string match -q '*::*' -- (commandline -ct)"
    yield f"complete -c tilewright -f -n {_quoted(naming)} -a '(__tilewright_kernels)'"
    for name in parsers:
        yield f"complete -c tilewright -f -n __fish_use_subcommand -a {_quoted(name)} -d {_quoted(helps[name])}"
    for name, parser in parsers.items():
        here = f"complete -c tilewright -n {_quoted(f'__fish_seen_subcommand_from {name}')}"
        for action in _options(parser):
            spelt = " ".join(
                f"-l {text[2:]}" if text.startswith("--") else f"-{'s' if len(text) == 2 else 'o'} {text[1:]}"
                for text in action.option_strings
            )
            values = f" -x -a {_quoted(' '.join(_values(action)))}" if _values(action) else ""
            required = " -r" if action.nargs != 0 and not values else ""
            yield f"{here} {spelt}{required}{values} -d {_quoted(action.help or '')}"
        if _words(parser):
            yield f"{here} -f -a {_quoted(' '.join(_words(parser)))}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


_SHELLS: dict[str, Callable[[Parsers, Mapping[str, str]], Iterator[str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
