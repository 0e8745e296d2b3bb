"""Both words on a target side by side: where the product and the oracle say the same, and where they do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WRONG = {"numerics", "gradient", "mutation", "state", "aliasing", "exception", "metadata"}
AGREE, FALSE_ALARM, MISS, CRASH, UNUSABLE = "agree", "false alarm", "miss", "crash", "unusable"
# Errors of the compiler; the last is an op that refuses what dynamo gives it in place of a number or a tensor.
COMPILERS = ("BackendCompilerFailed", "InternalTorchDynamoError", "InductorError", "TorchRuntimeError")
Words = Mapping[str, Any]


def compared(product: Words, oracle: Words) -> dict[str, str]:
    """For each aspect that differs, who says more: a ``false alarm`` of the product, or a ``miss``. Empty: they agree.

    ``unusable`` is a target that eager itself cannot run, or an oracle that failed.
    """
    if "crash" in oracle:
        return {"oracle": UNUSABLE}
    if oracle["eager_raises"]:
        return {"eager": UNUSABLE}
    if "crash" in product:
        return {"check_compile": CRASH}
    expected = set(product.get("expect", ()))
    pairs = {
        "graph breaks": (bool(product["breaks"]), bool(oracle["breaks"])),
        "places of breaks": (0, 0) if not (product["breaks"] and oracle["breaks"]) else places(product, oracle),
        "recompiles": (product["recompiles"], oracle["recompiles"]),
        "values": (bool(WRONG & set(product["kinds"])), bool(oracle["wrong"]) and not failed(oracle)),
        "fallbacks": (bool(product["fallbacks"]), bool(oracle["fallbacks"])),
        "nothing compiled": ("nothing-compiled" in product["kinds"], not oracle["graphs"]),
        "compile error": ("compile-error" in product["kinds"], failed(oracle)),
        "no verdict": ("not-observable" in product["kinds"], False),
        "planted defect": (bool(expected & set(product["kinds"])), bool(expected)),
        "left as it was": (bool(product["left"]), False),
    }
    return {aspect: FALSE_ALARM if said > true else MISS for aspect, (said, true) in pairs.items() if said != true}


def places(product: Words, oracle: Words) -> tuple[int, int]:
    """How many places of breaks only the product has, and only the oracle; places it knows no line of are left out."""
    said, true = (
        set(product["breaks"]),
        {place for place in oracle["breaks"] if not place.startswith(("unknown", "counted"))},
    )
    missing = len(true - said)
    return (0, missing)


def failed(oracle: Words) -> bool:
    """The compiler itself failed, and not the code that it compiled."""
    return any(name in oracle["compiled_raises"] for name in COMPILERS)


def findings(oracle: Words) -> list[str]:
    """What is truly to be found in a target."""
    known = [place for place in oracle["breaks"] if not place.startswith("unknown")]
    found = [f"graph break at {place}" for place in known or oracle["breaks"]]
    found += [f"recompiles: {oracle['recompiles']}"] if oracle["recompiles"] else []
    found += ["nothing compiled"] if not oracle["graphs"] else []
    if failed(oracle):
        return [*found, f"compile error: {oracle['compiled_raises']}"]
    if oracle["compiled_raises"]:
        return [*found, f"raises: {oracle['compiled_raises']}"]
    return [*found, *(f"differs: {what}" for what in oracle["wrong"][:1])]
