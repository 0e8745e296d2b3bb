"""Replay real history: plan fixed models of a library in each of its releases, and compare the counts of neighbours.

    PYTHONPATH=src:. python -m benchmarks.speed.history run transformers   # half an hour on two cores, resumed if interrupted
    PYTHONPATH=src:. python -m benchmarks.speed.history table

Every release is installed in a separate folder, and uses this environment's torch. A plan needs no GPU. Plans contain
most of the counts that the gate compares on a GPU, but not Python calls and synchronizations.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pytest_torch_compile.disk import write_atomically
from pytest_torch_compile.speed.deciding.exact import differences
from pytest_torch_compile.speed.sample import Exact

FILE = Path(__file__).parent / "data" / "history-1.json"
RELEASES = {
    "transformers": [f"5.{minor}" for minor in range(25)],
}
# A count that a GPU pays for. More guards cost only time on the host.
COSTS = {"kernels", "library_calls", "memory", "bytes_moved", "graph_breaks", "recompiles", "graphs"}

Case = tuple[Callable[[], Any], dict[str, Any], bool]


def main() -> None:
    command, *libraries = sys.argv[1:]
    if command == "run":
        for library in libraries or list(RELEASES):
            for release in RELEASES[library]:
                run(library, release)
    elif command == "here":
        print("COUNTS" + json.dumps({name: counts(case) for name, case in CASES[libraries[0]]().items()}))
    else:
        print("\n".join(table(json.loads(FILE.read_text(encoding="utf-8")))))


def run(library: str, release: str) -> None:
    """Install a release, and plan its models in a fresh process."""
    known = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    if release in known.get(library, {}):
        return
    with tempfile.TemporaryDirectory() as folder:
        wanted = [f"{library}=={release}.*"]
        install = ["uv", "pip", "install", "-q", "--python", sys.executable, "--target", folder, "--no-deps", *wanted]
        subprocess.run(install, check=True)
        needs = ["huggingface-hub", "tokenizers", "safetensors"]
        subprocess.run([*install[:-2], *requirements(Path(folder), needs)], check=True)
        path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
        ran = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "benchmarks.speed.history", "here", library],
            env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
        )  # fmt: skip
    line = next((line for line in ran.stdout.splitlines() if line.startswith("COUNTS")), None)
    found = json.loads(line.removeprefix("COUNTS")) if line else {"error": ran.stderr[-400:]}
    known.setdefault(library, {})[release] = found
    write_atomically(FILE, json.dumps(known, indent=1) + "\n")
    print(library, release, found, flush=True)


def requirements(folder: Path, names: list[str]) -> list[str]:
    """The requirements on these packages, as written in the metadata of the installed release."""
    (metadata,) = folder.glob("transformers-*.dist-info/METADATA")
    lines = metadata.read_text(encoding="utf-8").splitlines()
    needed = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
    return [need for need in needed if "extra ==" not in need and any(need.startswith(name) for name in names)]


def counts(case: Case) -> dict[str, Any]:
    """The planned counts of two calls, and the guards of all graphs."""
    import torch

    from pytest_torch_compile import CompileCheckFailed, call, check_plan

    make, inputs, train = case
    try:
        torch.manual_seed(0)
        model = make().train(train)
        calls = [call(**inputs), call(**inputs)]
        try:
            loss: Any = (lambda out: out[0].float().square().mean()) if train else False
            plan = check_plan(model, calls=calls, gpu="H200", train=loss, max_graph_breaks=50, max_recompiles=9)
        except CompileCheckFailed as failed:
            plan = failed.report
        guards = [graph.guards for graph in plan.observation.graphs]
        return {**plan.exact.counted(), **({} if None in guards else {"guards": sum(guards)})}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {str(error)[:200]}"}


def table(known: dict[str, Any]) -> Iterator[str]:
    """For each library, how many test-releases are red, and because of which counts."""
    yield "| release | model | counts |\n| --- | --- | --- |"
    totals: dict[str, Counter[str]] = {}
    for library, releases in known.items():
        total = totals.setdefault(library, Counter())
        for (_, before), (release, after) in zip(list(releases.items()), list(releases.items())[1:], strict=False):
            for model in before.keys() & after.keys():
                if "error" in (model, *before[model], *after[model]):
                    continue
                stored = {name: [value] for name, value in before[model].items()}
                worse = [one for one in differences(stored, [Exact(**after[model])]) if one.worse]
                kinds = {one.quantity.name for one in worse}
                total["test-releases"] += 1
                total["red"] += bool(worse)
                total["red by guards alone"] += kinds == {"guards"}
                total["red by a cost"] += bool(kinds & COSTS)
                if worse:
                    yield f"| {library} {release} | {model} | {', '.join(map(str, worse))} |"
    for library, total in totals.items():
        yield f"\n{library}: {dict(total)}"


def transformers_cases() -> dict[str, Case]:
    import torch
    import transformers as hf

    tokens = {"input_ids": torch.ones(4, 128, dtype=torch.long), "attention_mask": torch.ones(4, 128, dtype=torch.long)}
    pixels = {"pixel_values": torch.randn(4, 3, 224, 224, dtype=torch.bfloat16)}
    size = {"hidden_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 512}

    def made(model: str, config: str, **options: Any) -> Any:
        return getattr(hf, model)(getattr(hf, config)(**options)).to(torch.bfloat16)

    bert = partial(made, "BertModel", "BertConfig", **size)
    decoder = {"n_embd": 256, "n_layer": 3, "n_head": 4}
    t5 = {"d_model": 256, "num_layers": 2, "num_heads": 4, "d_kv": 64, "d_ff": 512}
    return {
        "bert": (bert, tokens, False),
        "bert training": (bert, tokens, True),
        "llama": (partial(made, "LlamaModel", "LlamaConfig", **size, num_key_value_heads=2, use_cache=False), tokens, False),
        "gpt2": (partial(made, "GPT2Model", "GPT2Config", **decoder, use_cache=False), tokens, False),
        "vit": (partial(made, "ViTModel", "ViTConfig", **size), pixels, False),
        "t5 encoder": (partial(made, "T5EncoderModel", "T5Config", **t5), tokens, False),
    }  # fmt: skip


CASES: dict[str, Callable[[], dict[str, Case]]] = {"transformers": transformers_cases}

if __name__ == "__main__":
    main()
