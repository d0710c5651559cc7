"""Write an example network to a file; without arguments, list the networks.

python -m examples resnet18 resnet18.onnx --qdq
"""

import argparse
import sys
from pathlib import Path

from examples.networks import NETWORKS, build
from examples.qdq import Scales, to_qdq

OPSETS = range(9, 25)
_SCALES: dict[str, Scales] = {"power-of-two": "power of two", "free": "free"}


def main() -> None:
    """Write the model that the command line names."""
    parser = _parser()
    if len(sys.argv) == 1:
        parser.print_help()
        return
    arguments = parser.parse_args()
    try:
        model = build(arguments.network, arguments.seed, batch_norm=arguments.batch_norm, opset=arguments.opset)
    except ValueError as error:
        parser.error(str(error))
    if arguments.qdq:
        model = to_qdq(model, arguments.seed, _SCALES[arguments.qdq])
    arguments.out.write_bytes(model.SerializeToString())


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, NETWORKS))
    parser = argparse.ArgumentParser(
        prog="python -m examples",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="networks:\n" + "\n".join(f"  {name:{width}}  {entry.summary}" for name, entry in NETWORKS.items()),
    )
    parser.add_argument("network", choices=NETWORKS, metavar="NETWORK", help="one of those below")
    parser.add_argument("out", type=Path, metavar="OUT", help="the ONNX file")
    parser.add_argument("--seed", type=int, default=0, help="of the weights, and of the samples that calibrate")
    parser.add_argument("--opset", type=int, choices=OPSETS, metavar="N", help="17 if not given")
    parser.add_argument(
        "--batch-norm",
        action=argparse.BooleanOptionalAction,
        help="batch norms as nodes, or folded; folded if not given, but for resnet8",
    )
    parser.add_argument(
        "--qdq",
        nargs="?",
        const="power-of-two",
        choices=_SCALES,
        help="quantise to int8, QDQ form, with scales that are powers of two (if not said) or free",
    )
    return parser


if __name__ == "__main__":
    main()
