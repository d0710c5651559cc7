import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.catalog.load_accelerator import load_accelerator
from accel.errors import SimulationError
from accel.isa import decode_kernel
from accel.isa.decode import decode, decode_signatures, encoding_arrays
from accel.isa.vta.document.vta_configuration import VtaConfig
from accel.isa.vta.document.vta_document import vta_accelerator
from tests.helpers.marking import share
from tests.helpers.programs.golden import board, needs_golden, words
from tests.reference.encode import encode, of_columns

VTA = board()


@needs_golden
@pytest.mark.parametrize("file", ["streams.npz", "microbenchmarks.npz"])
def test_golden_streams_come_back_bit_for_bit(file):
    accelerator = board()
    for name, stream in words(file).items():
        assert np.array_equal(encode(decode(accelerator, stream)), stream), name


def test_fields_of_a_gemm_written_by_hand():
    word0 = 2 | 1 << 3 | 1 << 6 | 1 << 7 | 5 << 8 | 9 << 21 | 14 << 35 | 3 << 49
    word1 = 7 | 6 << 11 | 5 << 22 | 4 << 33 | 3 << 44 | 2 << 54
    decoded = decode(VTA, np.array([[word0, word1]], np.uint64))
    assert VTA.instructions[decoded.kind[0]].name == "gemm"
    values = {name: int(column[0]) for name, column in decoded.columns.items() if column[0]}
    assert values == {
        "opcode": 2,
        "pop_prev": 1,
        "push_next": 1,
        "reset_reg": 1,
        "uop_bgn": 5,
        "uop_end": 9,
        "iter_out": 14,
        "iter_in": 3,
        "dst_factor_out": 7,
        "dst_factor_in": 6,
        "src_factor_out": 5,
        "src_factor_in": 4,
        "wgt_factor_out": 3,
        "wgt_factor_in": 2,
    }


def test_an_immediate_keeps_its_sign():
    word1 = 1 << 47 | (-128 & 0xFFFF) << 48
    decoded = decode(VTA, np.array([[4, word1]], np.uint64))
    assert decoded.column("imm")[0] == -128


@pytest.mark.slow
@settings(max_examples=share(40))
@given(data=st.data(), block=st.sampled_from([3, 4, 5]), kind=st.integers(0, 7))
def test_any_values_of_the_fields_survive(data, block, kind):
    accelerator = vta_accelerator(
        VtaConfig(LOG_BLOCK=block, LOG_WGT_BUFF_SIZE=15, LOG_ACC_BUFF_SIZE=15), name="x", title="x"
    )
    instruction = accelerator.instructions[kind]
    columns = {field.name: np.zeros(3, np.int64) for i in accelerator.instructions for field in i.fields}
    for field in instruction.fields:
        signed = field.type == "signed"
        low, high = (-(1 << field.bits - 1), (1 << field.bits - 1) - 1) if signed else (0, (1 << field.bits) - 1)
        value = st.integers(low, high) if field.value is None else st.just(field.value)
        columns[field.name] = np.array(data.draw(st.lists(value, min_size=3, max_size=3)), np.int64)
    read = of_columns(accelerator, np.full(3, kind, np.int16), columns)
    assert np.array_equal(read.kind, np.full(3, kind))
    assert all(np.array_equal(read.column(name), column) for name, column in columns.items())


@pytest.mark.parametrize("opcode", [5, 6, 7])
def test_an_undefined_opcode_is_named(opcode):
    stream = np.array([[3, 0], [opcode, 0]], np.uint64)
    with pytest.raises(SimulationError, match=f"instruction 1 is undefined: 0000000000000000 000000000000000{opcode}"):
        decode(VTA, stream)


def test_a_load_of_an_unknown_memory_is_undefined():
    with pytest.raises(SimulationError, match="instruction 0 is undefined"):
        decode(VTA, np.array([[6 << 7, 1 << 16 | 1]], np.uint64))


def test_words_of_the_wrong_width_are_refused():
    with pytest.raises(SimulationError, match=r"must be \(n, 2\) words"):
        decode(VTA, np.zeros((4, 3), np.uint64))


def test_a_value_beyond_its_field_is_refused():
    decoded = decode(VTA, np.array([[0, 1 << 16 | 1]], np.uint64))
    decoded.columns["y_pad_0"][0] = 16
    with pytest.raises(SimulationError, match=r"y_pad_0 = 16 is outside \[0, 16\)"):
        encode(decoded)


def test_words_that_cannot_be_written_are_decoded_by_the_same_code():
    for signature in decode_signatures():
        signature.compile()
    words = np.array([[3, 0]], np.uint64)
    words.flags.writeable = False
    assert decode(VTA, words).kind[0] == decode(VTA, words[::-1]).kind[0] == len(VTA.instructions) - 1
    assert len(decode_kernel.classify_words.compiled_for) == len(decode_kernel.split_fields.compiled_for) == 1


def test_limits_of_fields_are_those_of_their_columns():
    # catches a sign that is lost, and a field that is 0 in the rows of other instructions
    words = np.random.default_rng(5).integers(0, 1 << 63, (40, 2), np.uint64)
    words[:, 0] = words[:, 0] & ~np.uint64(7) | 2  # a gemm
    words[:4] = [4, 1 << 47 | (-128 & 0xFFFF) << 48]
    for rows in (words, words[:1], words[20:]):
        columns = decode(VTA, rows).columns
        assert decode(VTA, rows).limits() == {name: (column.min(), column.max()) for name, column in columns.items()}
    assert set(decode(VTA, words[:0]).limits().values()) == {(0, 0)}


@pytest.mark.parametrize("name", ["vta", "gemmini"])
def test_packed_fields_are_those_of_the_columns(name: str) -> None:
    """A trace's records are packed from words: signs, fields that a sort has not, and widths must be the columns'."""
    accelerator = load_accelerator(name)
    arrays, random = encoding_arrays(accelerator), np.random.default_rng(0)
    kinds = [number for number, each in enumerate(accelerator.instructions) if not each.sequence]
    noise = random.integers(0, 1 << 64, (40 * len(kinds), accelerator.word_bits // 64), np.uint64)
    which = np.tile(kinds, 40)
    decoded = decode(accelerator, noise & ~arrays.masks[which] | arrays.values[which])
    kept = decoded.layout.names[1:]
    records = np.zeros(len(decoded), [(field, "<i8") for field in kept])
    places = {field: (8 * number, 8) for number, field in enumerate(kept)}
    decoded.pack(places, records.view(np.uint8).reshape(len(decoded), -1))
    assert all((records[field] == decoded.columns[field]).all() for field in kept)
