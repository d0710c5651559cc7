"""Limits of a configuration: which ten keys, and which variant, make a machine that VTA's encoding can address."""

from collections.abc import Iterator

from accel.errors import InvalidAccelerator
from accel.isa.vta.document import instruction_fields
from accel.isa.vta.document.vta_configuration import MEMORIES, Variant, VtaConfig, buffer_key

MAX_LOG_BATCH = 4  # the simulator's limits, not the encoding's
MAX_LOG_BLOCK = 7
MAX_LOG_BYTES = 24
MAX_TOTAL_BYTES = 1 << 25
BUS_BYTES = (4, 8, 16, 32, 64, 128)

_USUAL = VtaConfig()
_STEPS = {"LOG_BATCH": 1, "LOG_BLOCK": 1} | {buffer_key(name): -1 for name in MEMORIES}


def check_config(config: VtaConfig) -> None:
    """Refuse ten keys that no VTA can have.

    Raises:
        InvalidAccelerator: what is wrong, in figures; ``field`` is the key to mend.
    """
    _check_widths(config)
    _check_tile(config)
    _check_buffers(config)
    if (reason := _encoding_fault(config)) is not None:
        key, advice = _key_to_mend(config)
        raise InvalidAccelerator(f"{key}: {reason}; {advice}", field=key)


def check_variant(variant: Variant, config: VtaConfig) -> None:
    """Refuse a variant that the configuration's encoding or the timing model cannot be.

    Raises:
        InvalidAccelerator: what is wrong; ``field`` is the variant's field.
    """
    if variant.bus_bytes not in BUS_BYTES:
        raise InvalidAccelerator(
            f"variant.bus_bytes: {variant.bus_bytes}; it is one of {', '.join(map(str, BUS_BYTES))}",
            field="variant.bus_bytes",
        )
    most = 1 << config.index_bits()["uop"]
    if variant.microop_depth is not None and variant.microop_depth > most:
        raise InvalidAccelerator(
            f"variant.microop_depth: {variant.microop_depth} micro-ops; the fields of LOG_UOP_BUFF_SIZE "
            f"{config.LOG_UOP_BUFF_SIZE} address {most}",
            field="variant.microop_depth",
        )


def _check_widths(config: VtaConfig) -> None:
    inp, wgt, acc = config.LOG_INP_WIDTH, config.LOG_WGT_WIDTH, config.LOG_ACC_WIDTH
    if all(0 <= width < 16 for width in (inp, wgt, acc)) and acc != 5 and 1 << acc < (1 << inp) + (1 << wgt):
        raise InvalidAccelerator(
            f"LOG_ACC_WIDTH: an accumulator of {1 << acc} bits is narrower than the product of {1 << inp} and "
            f"{1 << wgt} bits, which has {(1 << inp) + (1 << wgt)}; only 5 (32 bits) is supported",
            field="LOG_ACC_WIDTH",
        )
    for key, only, why in (
        ("LOG_INP_WIDTH", 3, "models are quantised to int8, and the simulator multiplies int8"),
        ("LOG_WGT_WIDTH", 3, "models are quantised to int8, and the simulator multiplies int8"),
        ("LOG_ACC_WIDTH", 5, "biases, requantisation and the ALU's operations are those of int32"),
    ):
        if (value := getattr(config, key)) != only:
            bits = f" ({1 << value} bits)" if 0 <= value < 16 else ""
            raise InvalidAccelerator(
                f"{key}: {value}{bits} is not supported; only {only} ({1 << only} bits) is: {why}", field=key
            )


def _check_tile(config: VtaConfig) -> None:
    for key, most in (("LOG_BATCH", MAX_LOG_BATCH), ("LOG_BLOCK", MAX_LOG_BLOCK)):
        if not 0 <= (value := getattr(config, key)) <= most:
            raise InvalidAccelerator(
                f"{key}: {value} is outside 0 to {most}; a tile of 2^{most} = {1 << most} is the largest simulated",
                field=key,
            )


def _check_buffers(config: VtaConfig) -> None:
    elements = config.elements()
    for name in MEMORIES:
        key, element = buffer_key(name), elements[name].element_bytes
        log_bytes = int(getattr(config, key))
        if log_bytes > MAX_LOG_BYTES:
            raise InvalidAccelerator(
                f"{key}: 2^{log_bytes} bytes; a buffer of more than 2^{MAX_LOG_BYTES} (16 MiB) is not simulated",
                field=key,
            )
        if log_bytes < 0 or 1 << log_bytes < element:
            raise InvalidAccelerator(
                f"{key}: the {name} buffer has 2^{log_bytes} bytes, less than one element "
                f"({_shape(elements[name].shape)} of {elements[name].dtype}), which has {element}: at least "
                f"{element.bit_length() - 1}",
                field=key,
            )
        if (bits := config.index_bits()[name]) > instruction_fields.SRAM_BITS:
            raise InvalidAccelerator(
                f"{key}: {1 << bits} elements; LOAD and STORE address {1 << instruction_fields.SRAM_BITS} "
                f"({instruction_fields.SRAM_BITS} bits of sram_base): "
                f"at most {log_bytes - bits + instruction_fields.SRAM_BITS}",
                field=key,
            )
    sizes = config.buffer_bytes()
    if sum(sizes.values()) > MAX_TOTAL_BYTES:
        largest = max(sizes, key=lambda name: sizes[name])
        raise InvalidAccelerator(
            f"{buffer_key(largest)}: the buffers have {sum(sizes.values())} bytes together; more than "
            f"{MAX_TOTAL_BYTES} (32 MiB) are not simulated",
            field=buffer_key(largest),
        )


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _encoding_fault(config: VtaConfig) -> str | None:
    """What of the encoding has no room for the indices of these memories."""
    bits = config.index_bits()
    for name, fields in (("GEMM", instruction_fields.gemm_fields(bits)), ("ALU", instruction_fields.alu_fields(bits))):
        end = fields[-1].lsb + fields[-1].bits
        if end > instruction_fields.WORD_BITS:
            used = ", ".join(f"{bits[memory]} for {memory}" for memory in MEMORIES)
            return f"the fields of {name} end at bit {end} of {instruction_fields.WORD_BITS}, with index bits {used}"
    sizes = {"acc": bits["acc"], "inp or acc": max(bits["inp"], bits["acc"]), "wgt": bits["wgt"]}
    if sum(sizes.values()) > instruction_fields.MICROOP_BITS:
        used = " + ".join(f"{count} ({of})" for of, count in sizes.items())
        return (
            f"a micro-op's indices need {used} = {sum(sizes.values())} bits; it has {instruction_fields.MICROOP_BITS}"
        )
    return None


def _key_to_mend(config: VtaConfig) -> tuple[str, str]:
    """The key that alone makes the encoding fit: one that is beyond the usual board's, by the fewest steps."""
    found = []
    for key in _STEPS:
        for steps, changed in enumerate(_changes(config, key), 1):
            if _encoding_fault(changed) is None:
                unusual = (getattr(_USUAL, key) - getattr(config, key)) * _STEPS[key]
                found.append((unusual <= 0, steps, -unusual, key, f"it fits with {key} {getattr(changed, key)}"))
                break
    if found:
        return min(found)[3:]
    bits = config.index_bits()
    key = buffer_key(max(MEMORIES, key=lambda name: bits[name]))
    return key, "no other value of one key alone would fit"


def _changes(config: VtaConfig, key: str) -> Iterator[VtaConfig]:
    """Smaller buffers, or larger tiles, one step after the other while no memory gets smaller than its element."""
    limits = {"LOG_BATCH": MAX_LOG_BATCH, "LOG_BLOCK": MAX_LOG_BLOCK}
    while True:
        value = getattr(config, key) + _STEPS[key]
        config = config.model_copy(update={key: value})
        if value > limits.get(key, value) or min(config.index_bits().values()) < 0:
            return
        yield config
