"""The command line: ``maxmargin train TRAIN MODEL``, ``predict``, ``evaluate`` and so on.

The library is imported only after the arguments are parsed, so that help appears at once. Exit status: 0
for success, 1 for bad files or data, 2 for a wrong command line, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from importlib.metadata import version
from typing import IO, Any, NoReturn, cast

from maxmargin.cli.roles import (
    InputData,
    InputPath,
    OutputData,
    OutputModel,
    OutputPath,
    check_roles,
    template_path,
    word,
)
from maxmargin.cli.screen import Screen
from maxmargin.io import FORMATS, TASKS
from maxmargin.io.quoting import on_one_line, shortened

# The module of each command; all other commands are in ``apply``.
MODULES = dict.fromkeys(("train", "path", "convert", "demo"), "train")
MODULES |= {"bench": "bench", "check": "check"}
SIZES = {"K": 2**10, "M": 2**20, "G": 2**30}
EXAMPLES = """\
  maxmargin train train.conll tagger.model
  maxmargin predict tagger.model new.conll > tags
  maxmargin evaluate tagger.model test.conll
"""


def tolerance(text: str) -> float | str:
    """Parse a number or "auto"."""
    return text if text == "auto" else float(text)


def size(text: str) -> int:
    """Parse a number of bytes, such as 500M or 2G."""
    unit = SIZES.get(text[-1:].upper(), 1)
    found = int(float(text[:-1] if unit > 1 else text) * unit)
    if found < 1:
        raise ValueError
    return found


def add_file_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how a file is read."""
    parser.add_argument("--format", choices=FORMATS, help="format of the file (default: guessed)")
    parser.add_argument("--task", choices=TASKS, help="task (default: guessed from the labels)")
    parser.add_argument("--label", type=word, default="", help="number or name of the label column")
    parser.add_argument(
        "--templates",
        type=template_path,
        default="words",
        metavar="words|window|FILE",
        help="features of text columns; FILE is a template file of CRF++ or wapiti",
    )


def add_training_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of training, except C."""
    parser.add_argument(
        "--tol",
        type=tolerance,
        default="auto",
        help="stop at this gap, in units of the loss, or auto",
    )
    parser.add_argument("--solver", type=word, default="auto")
    parser.add_argument("--max-seconds", type=float, default=None, help="time limit of each fit")
    parser.add_argument("--jobs", type=int, default=None, help="threads")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--transitions",
        choices=("iob2", "iobes", "bilou"),
        help="allow only the tag sequences of this scheme",
    )
    parser.add_argument(
        "--order", type=int, choices=(1, 2), default=1, help="order of the tag chain"
    )


def add_train(commands: Any) -> None:
    train = commands.add_parser("train", help="train a model on a file")
    train.add_argument(
        "data", type=InputData, metavar="TRAIN", help='a file, a folder of shards, or "-"'
    )
    train.add_argument("model", type=OutputModel, metavar="MODEL", help="the model file to write")
    add_file_options(train)
    train.add_argument(
        "--C", type=float, default=None, help="weight of the losses (default: by task)"
    )
    add_training_options(train)
    train.add_argument(
        "--checkpoint",
        type=OutputPath,
        metavar="FILE",
        help="save progress to this file, so that --resume can continue",
    )
    train.add_argument(
        "--checkpoint-every",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="time between two checkpoints",
    )
    train.add_argument("--resume", action="store_true", help="continue from the checkpoint")
    train.add_argument(
        "--scheduler",
        type=word,
        metavar="ADDRESS",
        help="train on the workers of the `dask scheduler` at this address",
    )
    train.add_argument(
        "--parts",
        type=int,
        help="number of parts of the data on a cluster (default: one per worker)",
    )
    train.add_argument(
        "--memory",
        type=size,
        metavar="SIZE",
        help="keep the examples on disk and use this much memory for them, such as 500M",
    )
    train.add_argument("--quiet", action="store_true", help="show no progress line")
    train.add_argument("--json", action="store_true", help="print the certificate as JSON")


def add_path(commands: Any) -> None:
    path = commands.add_parser("path", help="choose C: train with several values and score each")
    path.add_argument("data", type=InputData, metavar="TRAIN")
    path.add_argument(
        "--dev", type=InputData, metavar="FILE", help="file to score on (default: a fifth of TRAIN)"
    )
    path.add_argument("--Cs", type=int, default=8, help="number of values of C, over four decades")
    path.add_argument(
        "--report",
        type=OutputPath,
        metavar="PAGE",
        help="write an HTML page about the best model",
    )
    path.add_argument(
        "--scoring", type=word, help="name of the score, such as entity_f1 or f1_macro"
    )
    add_file_options(path)
    add_training_options(path)
    path.add_argument("--json", action="store_true")


def add_predict(commands: Any) -> None:
    predict = commands.add_parser("predict", help="write predictions for a file to standard output")
    predict.add_argument("model", type=InputPath, metavar="MODEL")
    predict.add_argument("data", type=InputData, metavar="INPUT")
    predict.add_argument("--append", action="store_true", help="print each token before its label")
    predict.add_argument("--jobs", type=int, default=None, help="threads")


def add_evaluate(commands: Any) -> None:
    evaluate = commands.add_parser("evaluate", help="score a model on a file with labels")
    evaluate.add_argument("model", type=InputPath, metavar="MODEL")
    evaluate.add_argument("data", type=InputData, metavar="TEST")
    evaluate.add_argument("--json", action="store_true")
    evaluate.add_argument("--jobs", type=int, default=None, help="threads")


def add_inspect(commands: Any) -> None:
    inspect = commands.add_parser("inspect", help="show the contents of a model file")
    inspect.add_argument("model", type=InputPath, metavar="MODEL")
    inspect.add_argument("--top", type=int, default=10, help="number of features per label")
    inspect.add_argument("--json", action="store_true")


def add_report(commands: Any) -> None:
    report = commands.add_parser("report", help="write an HTML page about a model")
    report.add_argument("model", type=InputPath, metavar="MODEL")
    report.add_argument(
        "data",
        type=InputData,
        metavar="TEST",
        nargs="?",
        help="file with labels, to score the model on",
    )
    report.add_argument(
        "--output", type=OutputPath, default="report.html", metavar="PAGE", help="the page to write"
    )
    report.add_argument(
        "--title", type=word, default="", help="title of the page (default: the name of the model)"
    )
    report.add_argument(
        "--top", type=int, default=10, help="number of features per label, and of mistakes"
    )
    report.add_argument(
        "--shape",
        type=int,
        nargs=2,
        metavar=("H", "W"),
        help="height and width, if the features are pixels",
    )
    report.add_argument("--jobs", type=int, default=None, help="threads")


def add_check(commands: Any) -> None:
    check = commands.add_parser("check", help="check a file before training on it")
    check.add_argument("data", type=InputData, metavar="FILE")
    check.add_argument(
        "--test",
        type=InputData,
        metavar="FILE",
        help="count the examples of this test file that also occur in FILE",
    )
    add_file_options(check)
    check.add_argument("--json", action="store_true")


def add_convert(commands: Any) -> None:
    convert = commands.add_parser("convert", help="write a file in another format")
    convert.add_argument(
        "data", type=InputData, metavar="IN", help='a file, a folder of shards, or "-"'
    )
    convert.add_argument(
        "output", type=OutputData, metavar="OUT", help='a file, a folder for shards, or "-"'
    )
    convert.add_argument("--to", choices=FORMATS, help="format of OUT (default: from its name)")
    add_file_options(convert)


def add_bench(commands: Any) -> None:
    bench = commands.add_parser("bench", help="compare all solvers on a file")
    bench.add_argument("data", type=InputData, metavar="TRAIN")
    add_file_options(bench)
    bench.add_argument(
        "--C", type=float, default=None, help="weight of the losses (default: by task)"
    )
    bench.add_argument(
        "--solvers", type=word, nargs="+", metavar="NAME", help="run only these solvers"
    )
    add_training_options(bench)
    bench.set_defaults(max_seconds=10.0)
    bench.add_argument("--json", action="store_true")


def add_certify(commands: Any) -> None:
    certify = commands.add_parser(
        "certify", help="recompute the objective of a model on its training file"
    )
    certify.add_argument("model", type=InputPath, metavar="MODEL")
    certify.add_argument("data", type=InputData, metavar="TRAIN")
    certify.add_argument("--json", action="store_true")


# The help lists the commands in this order.
COMMANDS = (
    add_train,
    add_path,
    add_predict,
    add_evaluate,
    add_inspect,
    add_report,
    add_check,
    add_convert,
    add_bench,
    add_certify,
)


class Parser(argparse.ArgumentParser):
    """A parser that prints each error on one line and shortens long arguments."""

    def error(self, message: str) -> NoReturn:
        super().error(shortened(on_one_line(message)))


def parser() -> argparse.ArgumentParser:
    """Build the parser with all commands and their options."""
    top = Parser(
        prog="maxmargin",
        description="Structural support vector machines, each with a certificate.",
        epilog="examples:\n" + EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="store_true", help="print the version")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    for add in COMMANDS:
        add(commands)
    commands.add_parser("demo", help="train on made-up sequences and show the certificate")
    return top


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line; the optional data file of ``report`` may also come after the options."""
    given, rest = parser().parse_known_args(argv)
    file = len(rest) == 1 and (rest[0] == "-" or not rest[0].startswith("-"))
    if file and given.command == "report" and given.data is None:
        given.data = InputData(rest.pop())
    if rest:
        parser().error(f"unrecognized arguments: {' '.join(rest)}")
    return given


def failed(why: str) -> int:
    """Print an error message; return the exit status."""
    print(f"maxmargin: error: {shortened(on_one_line(why))}", file=sys.stderr)
    return 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command with its output going through a ``Screen``; return the exit status."""
    out, err = Screen(sys.stdout), Screen(sys.stderr)
    with redirect_stdout(cast(IO[str], out)), redirect_stderr(cast(IO[str], err)):
        return failed("standard output is closed") if out.stream is None else run_command(argv)


def run_command(argv: Sequence[str] | None) -> int:
    """Parse and run one command; return the exit status."""
    given = parsed(argv)
    if given.version:
        print(f"maxmargin {version('maxmargin')}")
        return 0
    if given.command is None:
        parser().print_help(sys.stderr)
        return 2
    try:
        check_roles(given)
        commands = import_module(f"maxmargin.cli.{MODULES.get(given.command, 'apply')}")
        getattr(commands, given.command)(given)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("maxmargin: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the pipe closed it
        discard_output()
        return 0
    except MemoryError:
        return failed(
            "there is not enough memory; to keep the examples on disk, use train --memory SIZE"
        )
    except OSError as error:
        named = error.filename is not None and error.strerror is not None
        return failed(f"{error.filename}: {error.strerror}" if named else str(error))
    except (ValueError, TypeError) as error:
        return failed(str(error))
    return 0


def discard_output() -> None:
    """Send the remaining output to the null device; Python would fail when it flushes it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
