"""Where a command gets the password of a user: a prompt, standard input, an environment variable, or chance.

A password is never an argument: other users of the machine see the arguments of processes, and shells keep them.
"""

import argparse
import getpass
import sys
from collections.abc import Mapping
from typing import TextIO

from tailrace.cli.options.sc_options import UsageError
from tailrace.runtime.chance import Chance
from tailrace.security.sasl.text_preparation import PreparationError, check_text

_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"
"""What random passwords are made of: 56 characters that people do not confuse."""
_LENGTH = 24
PASSWORD_BYTES_MAX = 1024


def password_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say where the password comes from."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--password-stdin", action="store_true", help="Read the password from standard input.")
    group.add_argument("--password-env", metavar="VARIABLE", help="Take the password from this environment variable.")
    group.add_argument("--generate", action="store_true", help="Make a random password and print it once.")


def read_password(arguments: argparse.Namespace, environment: Mapping[str, str], stdin: TextIO, chance: Chance) -> str:
    """Returns the password, and asks for it on a terminal if no option says otherwise. Raises UsageError."""
    if arguments.generate:
        return random_password(chance)
    if arguments.password_env is not None:
        if arguments.password_env not in environment:
            raise UsageError(f"--password-env: there is no environment variable {arguments.password_env}")
        return _checked(environment[arguments.password_env])
    if arguments.password_stdin:
        return _checked(stdin.readline(PASSWORD_BYTES_MAX + 2).rstrip("\r\n"))
    if not stdin.isatty():
        raise UsageError(
            "give the password with --password-stdin, --password-env or --generate: no terminal can be asked"
        )
    password = _checked(getpass.getpass("Password: "))
    if getpass.getpass("Password again: ") != password:
        raise UsageError("the two passwords differ")
    return password


def random_password(chance: Chance) -> str:
    """Returns a random password that is too long to guess."""
    # The remainder prefers some letters by a fifth, which takes two of 139 bits.
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in chance.secret(_LENGTH))


def print_generated(arguments: argparse.Namespace, name: str, password: str) -> None:
    """Prints a random password on standard output, and what it is on standard error."""
    if arguments.generate:
        sys.stdout.flush()
        print(f"The password of {name}, which is shown only now:", file=sys.stderr, flush=True)
        print(password)


def _checked(password: str) -> str:
    if len(password.encode()) > PASSWORD_BYTES_MAX:
        raise UsageError(f"the password is longer than {PASSWORD_BYTES_MAX} bytes")
    try:
        check_text(password)
    except PreparationError as error:
        raise UsageError(f"this password would not work with every client: {error}") from None
    return password
