"""Quantisation of a float model in a process of its own, while the job's process imports the compiler.

Importing TVM takes a processor a second, and quantisation needs nothing of it but the scheme, which the job tells when
it knows what the accelerator can do. What this module imports is loaded before the process is forked; TVM is not.
"""

import select
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx
from pydantic import TypeAdapter

from accel.frontend.quantize.quantize_model import is_quantised, prepare_model, quantize_prepared
from accel.frontend.quantize.scale_grid import Scheme
from accel.frontend.read.external_files import folder_data, single_file
from accel.frontend.read.load_model import load_externalized
from accel.frontend.read.model_info import Axes
from accel.util.helper_process import helper_process, receive_frame, send_frame

_MOST_BYTES = 1 << 28  # of a model that is loaded twice at the same time
_SCHEME = TypeAdapter(Scheme)


class QuantisationAhead:
    """The job's end of the line to the process.

    Args:
        line: to the process, which may be gone.
    """

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._begun: Scheme | None = None

    def begin(self, scheme: Scheme) -> None:
        """Tell the scheme; what no scheme changes has begun before."""
        self._begun = scheme
        with suppress(OSError):  # whoever asks for the result finds that it is gone
            send_frame(self._line, _SCHEME.dump_json(scheme))

    def quantised(self, scheme: Scheme, meanwhile: Iterable[Callable[[], object]] = ()) -> onnx.ModelProto | None:
        """Returns the model in QDQ form, as :func:`quantize_model` makes it of random samples.

        None if that failed, for whatever reason: the job tells it when it quantises the model itself. What is to be
        done ``meanwhile`` is begun until the model is there.
        """
        if self._begun is None:
            self.begin(scheme)
        for act in meanwhile:
            if select.select([self._line], [], [], 0)[0]:
                break
            act()
        data = receive_frame(self._line) if self._begun == scheme else None
        return None if data is None else onnx.ModelProto.FromString(data)


@contextmanager
def quantisation_ahead(model: Path, axes: Axes, seed: int) -> Iterator[QuantisationAhead | None]:
    """Within, a process quantises a model, if there is a second processor for it.

    It is over with the block, whether or not it was asked.

    Args:
        model: an ONNX file, which the job reads too. One that is quantised already, or large, is left to it.
        axes: what its dynamic axes are set to.
        seed: of the samples.
    """
    with (
        TemporaryDirectory(prefix="cyclops-ahead-") as directory,
        helper_process(partial(_quantise, model, axes, seed, Path(directory))) as line,
    ):
        yield None if line is None else QuantisationAhead(line)


def _quantise(model: Path, axes: Axes, seed: int, directory: Path, line: socket.socket) -> None:
    """Quantise in the process that was forked for it: at once as far as any scheme allows."""
    if not model.is_file() or model.stat().st_size > _MOST_BYTES:  # a pipe can be read once
        return
    data = single_file(model.read_bytes(), folder_data(model.parent))
    loaded = load_externalized(data, directory, axes=axes)
    if is_quantised(loaded.model):
        return
    (folded := directory / "folded").mkdir()
    prepared = prepare_model(loaded.model, folded, seed=seed)
    scheme = receive_frame(line)
    if scheme is not None:
        send_frame(line, quantize_prepared(prepared, _SCHEME.validate_json(scheme)).SerializeToString())
