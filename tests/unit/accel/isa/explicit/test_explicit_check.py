"""Documents that the family refuses, with the place and the reason."""

import pytest

from accel.accelerator.document import Accelerator
from accel.errors import InvalidAccelerator
from accel.isa.explicit.explicit_family import FAMILY
from tests.helpers.documents.explicit_documents import document


def changed(path: str, value: object) -> Accelerator:
    """The small machine with something else at a path such as ``instructions.3.loops``."""
    whole = document({"kind": "in_order"}).model_dump(mode="json")
    *way, last = path.split(".")
    place = whole
    for step in way:
        place = place[int(step)] if isinstance(place, list) else place[step]
    place[last] = value
    return Accelerator.model_validate(whole)


LOOP = {"extent": "outer"}


@pytest.mark.parametrize(
    ("path", "value", "field", "message"),
    [
        ("parameters", {"speed": 3}, "parameters", "speed; the family explicit has no parameters"),
        ("memories.1.depth", 1 << 28, "memories.1.depth", "bytes of memories together; at most 1073741824"),
        ("memories.0.shape", [1 << 17], "memories.0.shape", "131072 bytes of an element; at most 65536"),
        ("instructions.3.operands.X.address", None, "instructions.3.operands.X.address", "has its address in a field"),
        ("instructions.3.loops", [LOOP] * 4, "instructions.3.loops", "4 hardware loops; at most 3"),
        (
            "instructions.3.loops",
            [LOOP | {"steps": {"C": 1 << 40}}],
            "instructions.3.loops.0.steps.C",
            "less than 2.32",
        ),
        ("instructions.3.cycles", "4 / (outer - inner)", "instructions.3.cycles", "with outer = 1, inner = 1, 4"),
    ],
)
def test_what_cannot_be_executed_is_refused(path, value, field, message):
    with pytest.raises(InvalidAccelerator, match=message) as caught:
        FAMILY.check(changed(path, value))
    assert caught.value.field == f"accelerator.{field}"


def test_fields_too_wide_for_exact_products_are_refused():
    fields = document({"kind": "in_order"}).instruction("load_w").model_dump(mode="json")["fields"]
    wide = [dict(field, bits=21, lsb=128) if field["name"] == "rows" else field for field in fields]
    with pytest.raises(InvalidAccelerator, match="rows has 21 bits; at most 20") as caught:
        FAMILY.check(changed("instructions.1.fields", wide))
    assert caught.value.field == "accelerator.instructions.1.copy_fields.rows"


def test_expressions_of_too_many_values_are_refused():
    whole = document({"kind": "in_order"}).model_dump(mode="json")
    whole["memories"][2] |= {"shape": [128, 128]}
    whole["instructions"][3] |= {"operations": [{"name": "much", "does": "C[i, j] = C[i, j] + 1"}]}
    FAMILY.check(Accelerator.model_validate(whole))
    whole["instructions"][3]["operands"] = {
        "C": {"memory": "c", "address": "c", "shape": [10, 128, 128]},
        "D": {"memory": "c", "address": "x", "shape": [10, 128, 128]},
    }
    whole["instructions"][3]["operations"] = [{"name": "much", "does": "C[n, i, j] += D[n, i, k] * D[n, i, k]"}]
    whole["instructions"][3]["loops"] = []
    with pytest.raises(InvalidAccelerator, match="much computes 20971520 values at once; at most 16777216"):
        FAMILY.check(Accelerator.model_validate(whole))
