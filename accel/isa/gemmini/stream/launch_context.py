"""What a launch finds in the registers: the loops', the configuration and its scales, as launches before left them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np

from accel.errors import SimulationError
from accel.isa.decode import Decoded
from accel.isa.dram_windows import window_map
from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_document import parameters_of
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.stream.configuration_registers import apply_config, apply_preload, reset_registers
from accel.isa.gemmini.stream.loop_expansion import expand_loops, loop_registers
from accel.isa.kernels.compiled_kernels import Signature, compiled
from accel.isa.kernels.kernel_types import MATRIX, VECTOR, WORDS
from accel.program.program_model import DramWindow
from accel.util.arrays import Int32, Int64, Words


@dataclass(frozen=True)
class LaunchContext:
    """Registers, and where DRAM lies; nothing changes these arrays.

    Attributes:
        loops: (LOOPS,) the registers of the loops.
        state: (CONFIGURATION,) what config and preload left.
        bits: (SCALES,) the scales as bits.
        windows: (windows, 3) as :func:`accel.isa.dram_windows.window_map` makes it; no rows: addresses are indices.
    """

    loops: Int64
    state: Int64
    bits: Int32
    windows: Int64

    @staticmethod
    def fresh(parameters: GemminiParameters, windows: Sequence[DramWindow] = ()) -> "LaunchContext":
        """After power-on."""
        where = window_map(windows, 0) if windows else np.zeros((0, 3), np.int64)
        return LaunchContext(loop_registers(), *reset_registers(parameters), where)

    def map(self, dram_bytes: int) -> Int64:
        """The windows of a DRAM of that size."""
        return self.windows if len(self.windows) else window_map((), dram_bytes)

    def after(self, words: Words, parameters: GemminiParameters) -> "LaunchContext":
        """What a stream (n, 3) leaves.

        Raises:
            SimulationError: an undefined instruction, or a loop that does not fit.
        """
        loops, state, bits = self.loops.copy(), self.state.copy(), self.bits.copy()
        _configure_all(expand_loops(words, parameters, loops).words, state, bits)
        return replace(self, loops=loops, state=state, bits=bits)


def context_of(decoded: Decoded, parameters: GemminiParameters) -> LaunchContext:
    """What the launch finds; the state after power-on if nobody has said."""
    return decoded.context if isinstance(decoded.context, LaunchContext) else LaunchContext.fresh(parameters)


P = ParamSpec("P")
R = TypeVar("R")


def takes_decoded_launch(
    function: Callable[Concatenate[Words, GemminiParameters, LaunchContext, P], R],
) -> Callable[Concatenate[Decoded, P], R]:
    """Returns a function of a decoded launch from one of its words (n, 3), the parameters and what the launch finds.

    An error counts its instruction from the program's first then, and names it.
    """

    def launched(decoded: Decoded, /, *args: P.args, **kwargs: P.kwargs) -> R:
        parameters = parameters_of(decoded.accelerator)
        try:
            return function(decoded.words, parameters, context_of(decoded, parameters), *args, **kwargs)
        except SimulationError as error:
            if error.instruction is None or not error.reason:
                raise
            raise decoded.error(error.instruction, error.kind, error.reason) from error

    return launched


@compiled
def _configure_all(words: Int64, state: Int64, bits: Int32) -> None:
    for index in range(len(words)):
        if words[index, 0] == rocc.CONFIG:
            apply_config(state, bits, words[index, 1], words[index, 2])
        elif words[index, 0] == rocc.PRELOAD:
            apply_preload(state, words[index, 1], words[index, 2])


def context_signature() -> Signature:
    """Returns what follows the registers."""
    return Signature(_configure_all, MATRIX, VECTOR, WORDS)
