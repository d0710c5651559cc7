"""Mistakes of writing: what is no JSON or YAML, or says something else than it seems to."""

from collections.abc import Callable

from tests.unit.accel.accelerator.refused.case import TextCase


def _instead(of: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(of, new, 1)


TEXT = (
    TextCase(
        "a tab", "mvin-mvout", _instead("  - name: a ", "\t- name: a "), "accelerator",
        r"line \d+: a tab; indent with spaces",
    ),
    TextCase(
        "a key twice", "mvin-mvout", _instead("word_bits: 128", "word_bits: 128\nword_bits: 64"),
        "accelerator.word_bits", "word_bits: the key is there twice",
    ),
    TextCase(
        "a key twice in an instruction", "vector", _instead("    memory: w\n", "    memory: w\n    memory: x\n"),
        "accelerator.instructions.1.memory", "the key is there twice",
    ),
    TextCase(
        "an anchor", "vector", _instead("memories:", "memories: &all"), "accelerator",
        "line 1[0-9]: an anchor; write each value out",
    ),
    TextCase(
        "an alias", "vector", _instead("dram_dtype: int32", "dram_dtype: *all"), "accelerator",
        r"line \d+: an alias; write the value out",
    ),
    TextCase(
        "a tag", "mvin-mvout", _instead("depth: 256", "depth: !!int 256"), "accelerator",
        "the tag tag:yaml.org,2002:int; no tags are taken",
    ),
    TextCase(
        "a merge key", "mvin-mvout", _instead("    ports: 2", "    <<: {ports: 2}"), "accelerator.memories.0.<<",
        "no key '<<' here",
    ),
    TextCase(
        "a comment without a space", "mvin-mvout", _instead("depth: 256 #", "depth: 256#"),
        "accelerator.memories.0.depth", "valid integer; found '256#",
    ),
    TextCase(
        "a colon without a space", "mvin-mvout", _instead("  kind: in_order", "  kind:in_order"),
        "accelerator.synchronisation", "an object is expected; found 'kind:in_order'",
    ),
    TextCase(
        "a list that became text", "mvin-mvout", _instead("units: [load, array, store]", "units: load, array, store"),
        "accelerator.units", "a list is expected; found 'load, array, store'",
    ),
    TextCase(
        "a list without its dashes", "output-stationary",
        _instead("units: [load, array, store]", "units:\n  load\n  array"), "accelerator.units",
        "a list is expected; found 'load array'",
    ),
    TextCase(
        "an instruction that stands too far left", "mvin-mvout",
        _instead("  - name: mvin_b\n    kind: copy", "  - name: mvin_b\n  kind: copy"), "accelerator",
        "is not YAML: .*line",
    ),
    TextCase(
        "a number of another base", "mvin-mvout", _instead("depth: 256", "depth: 0x100"),
        "accelerator.memories.0.depth", "valid integer; found '0x100'",
    ),
    TextCase(
        "a number with a separator", "vector", _instead("depth: 8192", "depth: 8_192"), "accelerator.memories.0.depth",
        "valid integer; found '8_192'",
    ),
    TextCase(
        "yes for true", "vector", _instead("  window: 16", "  window: yes"), "accelerator.synchronisation.window",
        "valid integer; found 'yes'",
    ),
    TextCase(
        "an expression that YAML reads as a list", "mvin-mvout", _instead("does: C[i, j]", "does: [i, j]"),
        "accelerator", "is not YAML",
    ),
    TextCase(
        "two documents", "mvin-mvout", _instead("units:", "---\nunits:"), "accelerator",
        "one document in a file; found 2",
    ),
    TextCase("JSON with a comment", "vta", _instead("{", "{ // a VTA\n"), "accelerator", "is not JSON: .*line 1"),
    TextCase(
        "JSON with a comma too many", "gemmini", lambda text: text.rstrip().removesuffix("}") + ",}", "accelerator",
        "is not JSON: .*line",
    ),
    TextCase("JSON that ends early", "gemmini", lambda text: text[: len(text) // 2], "accelerator", "is not JSON"),
    TextCase(
        "a number that is none", "vta", _instead('"clock_mhz": 100.0', '"clock_mhz": NaN'), "accelerator",
        "is not JSON: NaN is no number",
    ),
    TextCase(
        "a key twice in JSON", "vta", _instead('"word_bits": 128,', '"word_bits": 128, "word_bits": 128,'),
        "accelerator.word_bits", "the key is there twice",
    ),
    TextCase("nothing at all", "mvin-mvout", lambda _: "", "accelerator", "one document in a file; found 0"),
)  # fmt: skip
