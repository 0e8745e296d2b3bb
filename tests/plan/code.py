"""Generated code as it is compared: without comments and the hash of the Triton build, kernel by kernel."""

from __future__ import annotations

import hashlib
import re

_COMMENTS = re.compile(r"# (kernel path|Topologically|Source|Original).*")
_KERNEL = re.compile(r"^(?P<name>\w+) = async_compile\.triton\(.*?^''', device_str='cuda'\)$", re.M | re.S)


def normalised(source: str) -> str:
    """The code without what may differ between equal plans."""
    source = re.sub(r"'backend_hash': '\w+'", "'backend_hash': X", _COMMENTS.sub("", source))
    return "\n".join(line for line in source.splitlines() if line.strip() and not line.strip().startswith("#"))


def parts(source: str) -> dict[str, str]:
    """The kernels by name, and the code that launches them as ``wrapper``."""
    code = normalised(source)
    kernels = {found["name"]: found[0] for found in _KERNEL.finditer(code)}
    return {**kernels, "wrapper": _KERNEL.sub("", code)}


def hashes(source: str) -> list[str]:
    """A hash of each part, in order."""
    return [hashlib.sha256(text.encode()).hexdigest()[:16] for text in parts(source).values()]


def different(source: str, recorded: list[str]) -> str:
    """The planned parts whose hashes were not recorded, or an empty string if the code is that of the record."""
    planned = hashes(source)
    if planned == recorded:
        return ""
    named = dict(zip(parts(source).items(), planned, strict=True))
    texts = [f"{name}:\n{text}" for (name, text), own in named.items() if own not in recorded]
    return f"{len(planned)} parts planned, {len(recorded)} recorded; not in the record:\n" + "\n".join(texts)
