"""The convolution that VTA users know: 3x3, 16 to 16 channels, 224x224, pad 1; add 256, shift 9, clip to +-127.

Already quantised: QDQ form, int8 in and out.

    python -m examples.conv224 OUT.onnx
"""

import onnx

from examples.command import write_model
from examples.single import Conv, conv_model


def conv224(seed: int = 0) -> onnx.ModelProto:
    """The model: input ``x`` int8 [1, 16, 224, 224], output ``y`` int8 of the same shape."""
    return conv_model(Conv(16, 16, 224, 224, bias=False, limit=127, shift=9), seed)


def main() -> None:
    """Write the model to the file named on the command line."""
    write_model(conv224, __doc__)


if __name__ == "__main__":
    main()
