"""Units that wait for nothing that comes, or do not wait for what they need."""

from typing import Any

from tests.unit.accel.accelerator.refused.case import REMOVED, Case


def _of(**tokens: Any) -> Any:
    return {"pop": {}, "push": {}} | tokens


def _nobody(direction: str, unit: str) -> Any:
    """The instructions without that token of theirs."""

    def without(old: Any) -> Any:
        kept = [one["tokens"] for one in old]
        left = [t | {direction: {name: f for name, f in t[direction].items() if name != unit}} for t in kept]
        return [one | {"tokens": tokens} for one, tokens in zip(old, left, strict=True)]

    return without


def _and_relu(old: Any) -> Any:
    """The instructions with arithmetic on another unit, and sums that begin as zero in place of a load."""
    matmul = next(one for one in old if one["name"] == "matmul")
    matmul["fields"].append({"name": "op", "lsb": 112, "bits": 1})
    matmul["operations"][0]["when"] = {"op": 0}
    matmul["operations"].append({"name": "zero", "when": {"op": 1}, "does": "C[i, j] = 0"})
    relu = {"name": "relu", "kind": "compute", "pragma": "pragma_relu", "unit": "store"}
    relu["operands"] = {"C": {"memory": "c", "address": "tile"}}
    relu["operations"] = [{"name": "relu", "does": "C[i, j] = relu(C[i, j])"}]
    opcode, tile = {"name": "opcode", "lsb": 0, "bits": 8, "value": 60}, {"name": "tile", "lsb": 8, "bits": 16}
    return [*(one for one in old if one["name"] != "mvin_c"), relu | {"fields": [opcode, tile]}]


SYNC = (
    Case(
        "tokens where addresses are waited for", "vector", "instructions/load_x/tokens", _of(pop={"vector": "pad_top"}),
        "instructions/load_x/tokens/pop/vector", "pad_top has 4 bits; a token has one",
    ),
    Case(
        "tokens, and a machine that has none", "tokens", "synchronisation", {"kind": "in_order"},
        "instructions/mvin_a/tokens/pop", "units wait by in_order; there are no tokens",
    ),
    Case(
        "a token to itself", "tokens", "instructions/mvin_a/tokens/push", {"load": "push_array"},
        "instructions/mvin_a/tokens/push", "no other unit load; there are array, store",
    ),
    Case(
        "a token to nobody", "tokens", "instructions/mvout/tokens/pop", {"host": "pop_array"},
        "instructions/mvout/tokens/pop", "no other unit host; there are load, array",
    ),
    Case(
        "a token of two bits", "tokens", "instructions/mvout/fields/push_array/bits", 2,
        "instructions/mvout/tokens/push/array", "push_array has 2 bits; a token has one",
    ),
    Case(
        "one bit for two tokens", "tokens", "instructions/matmul/tokens/pop", {"load": "pop_load", "store": "pop_load"},
        "instructions/matmul/tokens/pop/store",
        "pop_load is tokens.pop.load already; each role needs a field of its own",
    ),
    Case(
        "a wait for what nobody sends", "tokens", "instructions", _nobody("push", "store"),
        "instructions/mvout/tokens/pop/array",
        "mvout would wait forever: no instruction of array pushes a token to store; one must",
    ),
    Case(
        "tokens that nobody takes", "tokens", "instructions", _nobody("pop", "store"),
        "instructions/mvout/tokens/push/array",
        "nothing waits for the tokens of mvout: no instruction of array pops those of store; one must",
    ),
    Case(
        "a load that does not wait for room", "tokens", "instructions/mvin_a/tokens/pop", REMOVED,
        "instructions/mvin_a/tokens/pop",
        "mvin_a and unit array use a, so it must wait for a token of array; it needs a field for that",
    ),
    Case(
        "a load that tells nobody", "tokens", "instructions/mvin_b/tokens/push", REMOVED,
        "instructions/mvin_b/tokens/push", "mvin_b and unit array use b, so it must send a token to array",
    ),
    Case(
        "results that are not waited for", "tokens", "instructions/mvout/tokens/pop", REMOVED,
        "instructions/mvin_c/tokens/push/store",
        "nothing waits for the tokens of mvin_c: no instruction of store pops those of array",
    ),
    Case(
        "a compute that does not wait for its data", "tokens", "instructions/matmul/tokens/pop/load", REMOVED,
        "instructions/matmul/tokens/pop", "matmul and unit load use a, so it must wait for a token of load",
    ),
    Case(
        "arithmetic on two units that do not wait", "tokens", "instructions", _and_relu, "instructions/relu/tokens/pop",
        "relu and unit array use c, so it must wait for a token of array; it needs a field for that",
    ),
    Case(
        "an end before the stores", "tokens", "instructions/done/tokens/pop/store", REMOVED,
        "instructions/done/tokens/pop", "done must wait for a token of store, which stores; it needs a field for that",
    ),
    Case(
        "a VTA in order", "vta", "synchronisation", {"kind": "in_order"}, "instructions/load_inp/tokens/pop",
        "units wait by in_order; there are no tokens",
    ),
    Case(
        "a VTA's load without a token", "vta", "instructions/load_inp/tokens/push", {},
        "instructions/load_inp/tokens/push", "tokens join load with compute",
    ),
    Case(
        "a VTA whose ends talk to each other", "vta", "instructions/load_wgt/tokens/push", {"store": "push_next"},
        "instructions/load_wgt/tokens/push", "tokens join load with compute",
    ),
    Case(
        "a VTA of two units", "vta", "instructions/store_out/unit", "load", "instructions",
        "loading, computing and storing need a unit each",
    ),
    Case(
        "a Gemmini with tokens", "gemmini without loops", "synchronisation", {"kind": "tokens"}, "synchronisation/kind",
        "tokens; a Gemmini's reservation station orders hazards",
    ),
    Case(
        "parts of two units", "parts", "instructions/go/unit", "load", "instructions/matmul/unit",
        "go is of unit load, and matmul of array; they must be of one",
    ),
)  # fmt: skip
