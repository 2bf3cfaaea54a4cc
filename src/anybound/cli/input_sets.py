"""The options that state an input set: a box from two files, or a ball around a point.

--box LOWER.npy UPPER.npy
--center X.npy --epsilon E [--norm inf|2|1] [--clip LO HI]
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from anybound.cli.parser import Parser, number
from anybound.errors import InvalidConfig

if TYPE_CHECKING:
    from anybound.spec.input_sets import InputSet

__all__ = ["add_ball_options", "add_input_set_options", "clip_of", "input_set_of"]

NORMS = ("inf", "2", "1")


def add_input_set_options(parser: Parser) -> None:
    """All of them, of which `input_set_of` wants either kind."""
    group = parser.add_argument_group("the set of inputs: a box, or a ball around a point")
    group.add_argument(
        "--box", nargs=2, metavar=("LOWER.npy", "UPPER.npy"), help="every lower <= x <= upper"
    )
    group.add_argument("--center", metavar="X.npy", help="the middle of a ball")
    group.add_argument("--epsilon", metavar="E", type=number, help="the radius of the ball")
    add_ball_options(parser)


def add_ball_options(parser: Parser) -> None:
    """What a ball is beside its middle and radius."""
    parser.add_argument(
        "--norm", metavar="NORM", choices=NORMS, help="of the ball: inf (the default), 2 or 1"
    )
    parser.add_argument(
        "--clip",
        nargs=2,
        metavar=("LO", "HI"),
        type=number,
        help="the range of valid inputs, which cuts the ball",
    )


def clip_of(options: Namespace) -> tuple[float, float] | None:
    """The range that `--clip` gives."""
    if options.clip is None:
        return None
    low, high = options.clip
    if low > high:
        raise InvalidConfig(
            f"--clip {low:g} {high:g}: the range is empty; give the lower end first"
        )
    return low, high


def input_set_of(options: Namespace, inputs: int) -> InputSet:
    """The set that the options state, for a network of so many inputs."""
    ball = [
        name for name in ("center", "epsilon", "norm", "clip") if vars(options)[name] is not None
    ]
    if options.box is not None and ball:
        raise InvalidConfig(f"--box and --{ball[0]} exclude each other: give a box or a ball")
    if options.box is not None:
        return _box(options, inputs)
    if options.center is None or options.epsilon is None:
        raise InvalidConfig(
            "no input set: give --box LOWER.npy UPPER.npy, or --center X.npy and --epsilon E"
        )
    from anybound.cli.arrays import load_array
    from anybound.spec.build import neighbourhood

    center = load_array(options.center)
    return neighbourhood(center, inputs, options.epsilon, options.norm or "inf", clip_of(options))


def _box(options: Namespace, inputs: int) -> InputSet:
    from anybound.cli.arrays import load_array
    from anybound.errors import InvalidInput
    from anybound.spec.input_sets import BoxSet

    borders = [load_array(path) for path in options.box]
    for path, border in zip(options.box, borders, strict=True):
        if border.size != inputs:
            raise InvalidInput(
                f"{path}: shape {border.shape} has {border.size} values; "
                f"the network has {inputs} inputs"
            )
    return BoxSet(borders[0], borders[1])
