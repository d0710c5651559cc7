"""Gemmini's loops as instructions as large as a layer: a matrix product, and a convolution, of tensors in DRAM.

What they are said to do is what all designs do: images whose pixels lie as far apart as the loop has channels, and
halves of the memories that take turns by themselves, each with a tile. Operands lie with their channels side by side,
weights as ``[kernel rows, kernel columns, data channels, result channels]``.

Every loop has a bias, and leaves its results: the hardware turns the halves of biases and of results apart from each
other, each when a loop has one (LoopMatmul.scala ``ld_d_addr_start``, ``ex_c_addr_start``).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from accel.accelerator.instructions import HardwareLoop, Layer, LayerOperand, LayerOperation, Window
from accel.isa.gemmini.document.gemmini_parameters import ACC_BYTES, LINE_BYTES, GemminiParameters
from accel.isa.gemmini.document.rocc_encoding import NONE, ONE, RELU

_WEIGHT_STATIONARY = 1
_LOAD = 14  # cycles of a load alone, beside memory's and one a row (mvin of the recordings)
_WAY = 7  # cycles of a request's and its answer's way through buffers (mvin_chain of the recordings)
_KEPT_MORE, _KEPT_LEAST = 0.7, 7.2  # of a product whose weights stay: beside its rows, and with few of them
_SENT = 8  # instructions of a loop that differ from those of the loop before, about
# fitted to the cycles of 70 tiles of random layers, of which half are within a fifteenth
_GAP, _BEGIN, _BEHIND = 50, 60, 0.8
_BUSY, _WAITED = 1.05, 0.7  # of products beside loads; of loads that products of an accumulator of one bank wait for
# of biases, weights, products and results where loops take turns: what of each nothing of the other loop hides
_BIASES, _WEIGHTS, _PRODUCTS, _RESULTS = 0.4, 0.5, 0.75, 0.5
_COUNT, _EXTENT, _PADS, _STEP = 16, 16, 8, 31  # bits


def loop_layers(parameters: GemminiParameters, spad: str, acc: str) -> tuple[Layer, ...]:
    """The layers of a configuration, whose memories are called ``spad`` and ``acc``."""
    return _matmul_loop(parameters, spad, acc), _conv_loop(parameters, spad, acc)


@dataclass(frozen=True)
class _Price:
    """What a loop takes: the most of its loads, products and stores, as halves take turns, or a share of all of them.

    Two loops are under way at most: where none of the three is much longer than the others each waits for some of them.
    An accumulator of one bank takes no turns: biases and results wait for products, and these for them.

    Attributes:
        bias: cycles of the load of a tile's bias, each row of which is the same one of DRAM.
        request: cycles of a request for a block, where many follow.
        blocks: of channels in a request.
        beats: cycles of the bus for a block.
        turns: whether loads and products are at the same time.
        sent: least cycles from one loop to the next that a processor sends.
        again: cycles more from one write to the next in the same line of an L2.
    """

    bias: str
    request: str
    blocks: int
    beats: str
    turns: bool
    sent: int
    again: int

    @staticmethod
    def of(parameters: GemminiParameters) -> "_Price":
        """Of a configuration; without an L2 by the latency that the document has for its DRAM."""
        beats = max(parameters.dim / parameters.dma_bus_bytes, 1)
        alone, way = _LOAD + parameters.dim, _WAY + beats - 1
        bias = f"(read_latency + {alone}) / {parameters.commands_tracked}"
        request = f"max({beats:g}, (read_latency + {way:g}) / {parameters.requests_in_flight})"
        if parameters.memory is not None:
            answered = (parameters.answer_latency + way) / parameters.requests_in_flight
            bias = f"{(parameters.answer_latency + alone) / parameters.commands_tracked:.4g}"
            request = f"{max(beats, answered):.4g}"
        core = parameters.core
        return _Price(
            bias,
            request,
            max(parameters.dma_max_bytes // parameters.dim, 1),
            f"{beats:g}",
            parameters.accumulator_banks > 1,
            0 if core is None else _SENT * core.issue_cycles + core.loop_cycles,
            0 if parameters.memory is None else parameters.memory.l2_write_cycles,
        )

    def row(self, blocks: str) -> str:
        """Cycles of a row of so many blocks."""
        beats = blocks if self.beats == "1" else f"{self.beats} * {blocks}"
        return f"max({beats}, ceil({blocks} / {self.blocks}) * {self.request})"

    def cycles(self, loads: "_Loads", products: str, rows: str, apart: str) -> str:
        """Cycles of a loop among others, whose results are so many rows, so many bytes ``apart``.

        Loads wait behind writes that wait for the one before.
        """
        stores, writing = f"{rows} * {self.request}", ""
        if self.again:
            longest = 1 + self.again - float(self.request)
            writing = f" + {rows} * max(0, {longest:.4g} - {self.again / LINE_BYTES:.4g} * {apart})"
        busy = f"{_BUSY} * {products}"
        shares = f"{_BIASES} * {loads.bias} + {_WEIGHTS} * {loads.weights} + {_PRODUCTS} * {products}"
        shares += f" + {_RESULTS} * {stores}"
        working = f"{loads}{writing}, {busy}, {shares}" if self.turns else f"{_WAITED} * ({loads}{writing}) + {busy}"
        return f"{_GAP} + max({self.sent}, {working}, {stores})"

    def alone(self, loads: "_Loads") -> str:
        """Cycles more of the first loop, behind whose loads its products are, and of the last, behind its products."""
        return f"{_BEGIN} + {_BEHIND} * ({loads})"


@dataclass(frozen=True)
class _Loads:
    """Cycles of what a loop loads, one after the other."""

    bias: str
    data: str
    weights: str

    def __str__(self) -> str:
        return f"{self.bias} + {self.data} + {self.weights}"


def _operations() -> tuple[LayerOperation, ...]:
    scaled = "Y[n] = i8(clip(rint(f32(SUM[n]) * scale), {}, 127.0))"
    return tuple(
        LayerOperation(
            name=name,
            when={"relu": relu},
            begins="SUM[n] = BIAS[n]",
            does="SUM[n] += i32(X[k]) * i32(W[k, n])",
            ends=scaled.format(low),
        )
        for name, relu, low in (("scale", NONE, "-128.0"), ("scale_relu", RELU, "0.0"))
    )


def _operands(
    spad: str, acc: str, dim: int, addresses: Mapping[str, str], windows: tuple[Window, ...] = ()
) -> dict[str, LayerOperand]:
    return {
        "X": LayerOperand(memory=spad, dram=addresses["X"], windows=windows),
        "W": LayerOperand(memory=spad, dram=addresses["W"], shape=(dim, dim), pitch="w_pitch"),
        "BIAS": LayerOperand(memory=acc, dram=addresses["BIAS"]),
        "SUM": LayerOperand(memory=acc),
        "Y": LayerOperand(memory=acc, dram=addresses["Y"], dram_dtype="int8"),
    }


def _uses(spad: str, acc: str, tiles: str, results: str) -> dict[str, str]:
    """All of both memories; a loop has its tiles in one half of each, while the other may be another's."""
    return {
        spad: f"max({spad}, 2 * ({tiles}))",
        acc: f"max({acc}, 2 * {results})",
    }


def _matmul_loop(parameters: GemminiParameters, spad: str, acc: str) -> Layer:
    dim = parameters.dim
    configured = {f"config_ld{state}.{field}": value for state in range(3) for field, value in _load(dim).items()}
    tiles, price = f"ceil(rows / {dim})", _Price.of(parameters)
    loads = _Loads(f"{price.bias} * {tiles} * j", f"rows * {price.row('k')}", f"{dim} * k * {price.row('j')}")
    products = f"j * k * max({dim}, rows + {_KEPT_MORE} * {tiles})"
    rows = "rows * j"
    return Layer(
        name="matmul_loop",
        unit="execute",
        sequence=(
            "config_ex", "config_ld0", "config_ld1", "config_ld2", "config_st", "loop_ws_bounds",
            "loop_ws_addresses_ab", "loop_ws_addresses_dc", "loop_ws_strides_ab", "loop_ws_strides_dc", "loop_ws",
        ),
        pragma="pragma_loop_ws",
        dram_unit="byte",
        numbers={
            "rows": _EXTENT, "relu": 1, "scale": "float32", "x_row": _STEP, "w_pitch": _STEP, "y_row": _STEP,
        },
        operands=_operands(
            spad, acc, dim,
            {
                "X": "loop_ws_addresses_ab.a", "W": "loop_ws_addresses_ab.b",
                "BIAS": "loop_ws_addresses_dc.d", "Y": "loop_ws_addresses_dc.c",
            },
        ),
        operations=_operations(),
        loops=(
            HardwareLoop(extent="loop_ws_bounds.k", steps={"X": dim}, follows={"W": f"{dim} * w_pitch"}),
            HardwareLoop(extent="loop_ws_bounds.j", steps={"W": dim, "BIAS": ACC_BYTES * dim, "Y": dim}),
            HardwareLoop(extent="rows", factors={"X": "x_row", "Y": "y_row"}),
        ),
        uses=_uses(spad, acc, f"({tiles} + j) * k * {dim}", f"{tiles} * j * {dim}"),
        follows={
            "config_ex.dataflow": f"{_WEIGHT_STATIONARY}",
            "config_ex.a_stride": "1",
            "config_ex.c_stride": "1",
            **configured,
            "config_ld0.stride": "x_row",
            "config_ld1.stride": "w_pitch",
            "config_st.activation": "relu",
            "config_st.scale": "scale",
            "config_st.stride": "y_row",
            "loop_ws_bounds.i": tiles,
            "loop_ws_bounds.pad_i": f"{dim} * {tiles} - rows",
            "loop_ws_strides_ab.a_stride": "x_row",
            "loop_ws_strides_ab.b_stride": "w_pitch",
            "loop_ws_strides_dc.c_stride": "y_row",
            "loop_ws.accumulate": "1",  # onto the bias
            "loop_ws.activation": "relu",
        },
        cycles=price.cycles(loads, products, rows, "y_row"),
        alone=price.alone(loads),
    )  # fmt: skip


def _load(dim: int) -> dict[str, str]:
    """What a loop needs of the configuration of a load beside its stride in DRAM."""
    return {"scale": f"{ONE}", "block_stride": f"{dim}", "pixel_repeats": "1"}


def _conv_loop(parameters: GemminiParameters, spad: str, acc: str) -> Layer:
    dim = parameters.dim
    # the hardware takes a stride more of an image than a kernel reaches
    in_rows = "(rows * stride + (kernel_rows - 1) * dilation)"
    in_columns = "(columns * stride + (kernel_columns - 1) * dilation)"
    tiles = f"in_blocks * {in_rows} * {in_columns} + kernel_rows * kernel_columns * in_blocks * blocks * {dim}"
    price, kernel, lines = _Price.of(parameters), "kernel_rows * kernel_columns", f"rows * ceil(columns / {dim})"
    loads = _Loads(
        f"{price.bias} * {lines} * blocks",
        f"height * width * {price.row('in_blocks')}",
        f"{dim} * {kernel} * in_blocks * {price.row('blocks')}",
    )
    kept = f"max({_KEPT_LEAST}, min(columns + {_KEPT_MORE}, {dim}))"
    products = f"blocks * in_blocks * {kernel} * ({dim} + ({lines} - 1) * {kept})"
    rows = "rows * columns * blocks"
    windows = (
        Window(over={"rows": "stride", "kernel_rows": "dilation"}, before="pad_top", extent="height", pitch="x_row"),
        Window(
            over={"columns": "stride", "kernel_columns": "dilation"}, before="pad_left", extent="width", pitch="x_pixel"
        ),
    )
    return Layer(
        name="conv_loop",
        unit="execute",
        sequence=("config_ex", "config_st", *(f"loop_conv_ws_{number}" for number in range(1, 7)), "loop_conv_ws"),
        pragma="pragma_loop_conv_ws",
        dram_unit="byte",
        numbers={
            **dict.fromkeys(("blocks", "in_blocks", "rows", "columns"), _COUNT),
            **dict.fromkeys(("kernel_rows", "kernel_columns", "stride", "dilation", "pad_top", "pad_left"), _PADS),
            **dict.fromkeys(("height", "width"), _EXTENT),
            **dict.fromkeys(("x_row", "x_pixel", "w_pitch", "y_row"), _STEP),
            "relu": 1,
            "scale": "float32",
        },
        operands=_operands(
            spad, acc, dim,
            {
                "X": "loop_conv_ws_6.input", "W": "loop_conv_ws_5.weights",
                "BIAS": "loop_conv_ws_6.bias", "Y": "loop_conv_ws_5.output",
            },
            windows,
        ),
        operations=_operations(),
        loops=(
            HardwareLoop(extent="blocks", steps={"W": dim, "BIAS": ACC_BYTES * dim, "Y": dim}),
            HardwareLoop(extent="kernel_rows", follows={"W": "kernel_columns * x_pixel * w_pitch"}),
            HardwareLoop(extent="kernel_columns", follows={"W": "x_pixel * w_pitch"}),
            HardwareLoop(extent="in_blocks", steps={"X": dim}, follows={"W": f"{dim} * w_pitch"}),
            HardwareLoop(extent="rows", factors={"Y": "y_row"}),
            HardwareLoop(extent="columns", follows={"Y": "w_pitch"}),
        ),
        uses=_uses(spad, acc, tiles, "blocks * rows * columns"),
        follows={
            "config_ex.dataflow": f"{_WEIGHT_STATIONARY}",
            "config_ex.a_stride": "stride",
            "config_ex.c_stride": "1",
            "config_st.activation": "relu",
            "config_st.scale": "scale",
            "config_st.stride": "w_pitch",
            "loop_conv_ws_1.all_batch": "1",
            # from row to row, if there are two, in pixels: nothing else follows of an image that is alone in its batch
            **dict.fromkeys(
                ("loop_conv_ws_1.all_in_rows", "loop_conv_ws_3.all_in_columns"),
                "min(rows + kernel_rows - 2, 1) * x_row / x_pixel",
            ),
            "loop_conv_ws_1.all_in_channels": "x_pixel",
            "loop_conv_ws_1.all_out_channels": "w_pitch",
            **dict.fromkeys(
                (
                    *("loop_conv_ws_1.all_out_rows", "loop_conv_ws_1.all_out_columns"),
                    *("loop_conv_ws_1.all_pool_rows", "loop_conv_ws_2.all_pool_columns"),
                ),
                "max(columns, y_row // w_pitch)",
            ),
            "loop_conv_ws_1.stride": "stride",
            "loop_conv_ws_2.pool_stride": "1",
            "loop_conv_ws_2.pool_size": "1",
            "loop_conv_ws_2.all_kernel": "kernel_columns",
            "loop_conv_ws_2.channels": f"{dim} * blocks",
            "loop_conv_ws_2.pool_columns": "columns",
            "loop_conv_ws_2.pool_rows": "rows",
            "loop_conv_ws_2.batch": "1",
            "loop_conv_ws_3.pad_left": "pad_left",
            "loop_conv_ws_3.in_channels": f"{dim} * in_blocks",
            "loop_conv_ws_3.kernel_columns": "kernel_columns",
            "loop_conv_ws_3.kernel_rows": "kernel_rows",
            "loop_conv_ws_3.pad_bottom": f"{in_rows} - pad_top - height",
            "loop_conv_ws_3.pad_top": "pad_top",
            "loop_conv_ws_3.pad_right": f"{in_columns} - pad_left - width",
            "loop_conv_ws_4.dilation": "dilation",
            "loop_conv_ws_4.rows": "rows",
            "loop_conv_ws_4.columns": "columns",
            "loop_conv_ws_4.out_stride": "w_pitch",
            "loop_conv_ws_4.weight_stride": "w_pitch",
            "loop_conv_ws_4.in_stride": "x_pixel",
            "loop_conv_ws.pixels": "1",
            "loop_conv_ws.no_pool": "1",
            "loop_conv_ws.activation": "relu",
        },
        cycles=price.cycles(loads, products, rows, "w_pitch"),
        alone=price.alone(loads),
    )  # fmt: skip
