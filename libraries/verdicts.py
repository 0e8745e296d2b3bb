"""Compare the results of the plugin and the oracle for a target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WRONG = {"numerics", "gradient", "mutation", "state", "aliasing", "exception", "metadata"}
AGREE, FALSE_ALARM, MISS, CRASH, UNUSABLE = "agree", "false alarm", "miss", "crash", "unusable"
# Exceptions that torch raises if it cannot compile code that works in eager.
FAILED = ("BackendCompilerFailed", "InternalTorchDynamoError", "InductorError", "TorchRuntimeError")
Words = Mapping[str, Any]


def compared(product: Words, oracle: Words) -> dict[str, str]:
    """Maps each aspect that differs to ``false alarm`` (the plugin reports more than the oracle) or ``miss`` (the
    plugin reports less); empty if both agree.

    ``unusable`` means that the target cannot run in eager, or that the oracle failed.
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
        "nothing compiled": ("nothing-compiled" in product["kinds"], not (oracle["graphs"] or failed(oracle))),
        "compile error": ("compile-error" in product["kinds"], failed(oracle)),
        "no verdict": ("not-observable" in product["kinds"], False),
        "planted defect": (bool(expected & set(product["kinds"])), bool(expected)),
        "left as it was": (bool(product["left"]), False),
    }
    return {aspect: FALSE_ALARM if said > true else MISS for aspect, (said, true) in pairs.items() if said != true}


def places(product: Words, oracle: Words) -> tuple[int, int]:
    """Zero, and the number of break locations that only the oracle reports, excluding locations whose line is unknown.
    Locations that only the plugin reports are not counted.
    """
    said, true = (
        set(product["breaks"]),
        {place for place in oracle["breaks"] if not place.startswith(("unknown", "counted"))},
    )
    missing = len(true - said)
    return (0, missing)


def failed(oracle: Words) -> bool:
    """Whether the compiler itself failed, rather than the code that it compiled."""
    return any(f": {name}:" in oracle["compiled_raises"] for name in FAILED)


def findings(oracle: Words) -> list[str]:
    """The findings in a target, according to the oracle."""
    known = [place for place in oracle["breaks"] if not place.startswith("unknown")]
    found = [f"graph break at {place}" for place in known or oracle["breaks"]]
    found += [f"recompiles: {oracle['recompiles']}"] if oracle["recompiles"] else []
    found += ["nothing compiled"] if not oracle["graphs"] else []
    if failed(oracle):
        return [*found, f"compile error: {oracle['compiled_raises']}"]
    if oracle["compiled_raises"]:
        return [*found, f"raises: {oracle['compiled_raises']}"]
    return [*found, *(f"differs: {what}" for what in oracle["wrong"][:1])]
