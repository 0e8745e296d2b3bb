"""The project's nox sessions: `nox -l` lists them, and `nox -s "tests(2.15)" -- -k name` runs part of a session."""

from __future__ import annotations

import subprocess
from pathlib import Path

import nox
from nox.virtualenv import PassthroughEnv

# The supported versions of torch, with compatible versions of torchvision, transformers and torchao. In torch 2.6,
# Inductor imports setuptools, but torch declares this dependency only for Python 3.12 and newer.
RELEASES = {
    "2.6": ("torch==2.6.0", "torchvision==0.21.0", "transformers==5.23.0", "setuptools"),
    "2.8": ("torch==2.8.0", "torchvision==0.23.0", "transformers==5.23.0"),
    "2.11": ("torch==2.11.0", "torchvision==0.26.0", "transformers==5.23.0", "torchao==0.18.0"),
    "2.13": ("torch==2.13.0", "torchvision==0.28.0", "transformers==5.23.0", "torchao==0.18.0"),
    "2.15": ("torch==2.15.0", "torchvision==0.29.2", "transformers==5.23.0", "torchao==0.18.0"),
}
NEWEST = list(RELEASES)[-1]
PROJECT = ("-e", ".[dev,suites]")
VERDICTS = ("tests/catalogue", "tests/legs", "tests/numerics")  # these tests start almost no processes
PARALLEL = ("-n", "auto", "--maxprocesses", "8", "--dist", "worksteal")
# The tests start many workers, ranks and other processes, and importing torch without its bytecode takes each of them
# 15 s longer. uv does not compile bytecode during installation, so the first import must write the bytecode, even if
# the environment turns this off.
BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}
# Each pytest-xdist worker uses one thread, because additional threads would only slow down the other workers. Without
# TORCHINDUCTOR_VEC_ISA_OK, each process with an empty compile cache first spends 7 s of CPU time to test the vector
# instructions of the CPU. Without optimization, the C++ code around the kernels of AOTInductor compiles 3 s faster.
WORKERS = {
    "OMP_NUM_THREADS": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "TORCHINDUCTOR_VEC_ISA_OK": "1",
    "AOT_INDUCTOR_COMPILE_WRAPPER_OPT_LEVEL": "O0",
    **BYTECODE,
}

nox.needs_version = ">=2024.10.9"
nox.options.default_venv_backend = "uv|venv"
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = True
nox.options.sessions = ["lint", f"tests({NEWEST})"]

each_torch = nox.parametrize("torch", list(RELEASES), ids=list(RELEASES))


@nox.session
@each_torch
def tests(session: nox.Session, torch: str) -> None:
    """Run the plugin's own tests."""
    install(session, torch)
    session.run("python", "-m", "pytest", *PARALLEL, *(session.posargs or ["tests"]), env=WORKERS)


@nox.session
def quick(session: nox.Session) -> None:
    """Run only the tests of verdicts, for quick feedback while you work."""
    install(session, torch_for(session))
    session.run("python", "-m", "pytest", *PARALLEL, *(session.posargs or VERDICTS), env=WORKERS)


@nox.session
@each_torch
def stress(session: nox.Session, torch: str) -> None:
    """Run the slow tests: all, or those given by name (kills, launched, order, alone, documents, load, large)."""
    install(session, torch)
    results = Path(session.cache_dir).parent / "stress" / torch
    results.mkdir(parents=True, exist_ok=True)
    pytest = ("python", "-m", "pytest")
    parts = {
        "kills": [("python", "-m", "tests.stress.kills", "--out", str(results / "kills.json"))],
        "launched": [("python", "-m", "tests.stress.launched", "--out", str(results / "launched.json"))],
        # Each torch release runs the tests in a different order, so five orders are tested in total.
        "order": [(*pytest, *PARALLEL, "--random-order-bucket=global", f"--random-order-seed={torch}", "tests")],
        "alone": [("python", "-m", "tests.stress.alone", "--out", str(results / "alone.json"))],
        "documents": [(*pytest, "-q", "tests/report/test_strange_documents.py")],
        "load": [("python", "benchmarks/load.py", "--out", str(results / "load.json"))],
        "large": [("python", "benchmarks/large_output.py", "--out", str(results / "large.json"))],
    }
    for part in session.posargs or parts:
        for command in parts[part]:
            session.run(*command, env={**WORKERS, "FUZZ_EXAMPLES": "20000"})


@nox.session
@each_torch
def suites(session: nox.Session, torch: str) -> None:
    """Run the suites, which check real models, on a CPU. This is the main session."""
    install(session, torch)
    chosen = session.posargs or ["suites", "-m", "not gpu"]
    session.run("python", "-m", "pytest", *PARALLEL, *chosen, env=WORKERS)


@nox.session
@each_torch
def sweep(session: nox.Session, torch: str) -> None:
    """Run the suites' models on one torch release, and update docs/compatibility.md."""
    install(session, torch)
    results = f"benchmarks/sweep/data/torch-{torch}.json"
    session.run("python", "-m", "benchmarks.sweep", "run", results, *session.posargs, env=WORKERS)
    session.run("python", "-m", "benchmarks.sweep", "page")


@nox.session
@nox.parametrize("torch", ["2.13", "2.15"], ids=["2.13", "2.15"])
def libraries(session: nox.Session, torch: str) -> None:
    """Compare check_compile with an independent oracle on third-party packages (all, or those given by name), and
    update the page with the results.
    """
    install(session, torch)
    if not isinstance(session.virtualenv, PassthroughEnv):
        session.install(*RELEASES[torch][:2], "-r", "libraries/requirements.txt")
    results = Path(session.cache_dir).parent / "libraries" / f"torch-{torch}.json"
    only = ("--only", *session.posargs) if session.posargs else ()
    battery = ("python", "-m", "libraries.run", "--out", str(results), *only)
    session.run(*battery, env=WORKERS, success_codes=[0, 1])
    session.run("python", "-m", "libraries.summary", str(results), f"libraries/data/torch-{torch}.json")
    session.run("python", "docs/generate.py")
    session.run(*battery, env=WORKERS)  # no targets are left; fails if check_compile and the oracle disagree


@nox.session
def gpu(session: nox.Session) -> None:
    """Run the suites (all, or those given) on CUDA: first the correctness tests in parallel, and then the gated speed
    tests on every GPU. Without arguments, also run the plugin's own tests that need a GPU.
    """
    install(session, torch_for(session))
    chosen = session.posargs or ["suites"]
    workers = ("-n", "auto", "--maxprocesses", "16", "--dist", "worksteal")
    session.run("python", "-m", "pytest", *workers, "--compile-device=cuda", "--benchmark-skip", *chosen, env=WORKERS)
    if not session.posargs:
        session.run("python", "-m", "pytest", *workers, "-m", "gpu", "tests", env=WORKERS)
    # pytest-benchmark does not support --benchmark-only together with pytest-xdist.
    speed = ("-n", "auto", "--dist", "worksteal", "-k", "test_speed", "--compile-perf=gate", "-rfE")
    session.run("python", "-m", "pytest", *speed, *chosen, env=BYTECODE)


@nox.session
def compare(session: nox.Session) -> None:
    """Compare this checkout's speed with another revision's: `nox -s compare -- main tests/test_speed.py`."""
    if not session.posargs:
        session.error("pass the revision, and optionally tests: nox -s compare -- BASE_REF [tests]")
    install(session, torch_for(session))
    base, *tests = session.posargs
    command = ("python", "-m", "pytest_torch_compile.cli", "compare", "--against", base)
    session.run(*command, *(tests or ["suites"]), env=BYTECODE)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, formatting, types, import layers, generated documentation, and links."""
    if not isinstance(session.virtualenv, PassthroughEnv):
        session.install("-e", ".[dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")
    session.run("python", "docs/generate.py", "--check")
    session.run("python", "-m", "tools.links")


@nox.session
@nox.parametrize("library", ["diffusers", "pyg", "tensordict"], ids=["diffusers", "pyg", "tensordict"])
def examples(session: nox.Session, library: str) -> None:
    """Run the example compile tests for other libraries on a CPU."""
    needs = {"diffusers": ["diffusers", "transformers"], "pyg": ["torch_geometric"], "tensordict": ["tensordict"]}
    if not isinstance(session.virtualenv, PassthroughEnv):
        session.install("torch==2.13.0", *needs[library], *PROJECT[:1], ".[report]")
    arguments = session.posargs or ["--compile-backend=eager"]
    session.run("python", "-m", "pytest", f"examples/{library}", *arguments, env=WORKERS)


@nox.session
def mutants(session: nox.Session) -> None:
    """Run the mutation and false-alarm tests of the comparison on all cores, and resume an interrupted run."""
    here = version_here("torch") if isinstance(session.virtualenv, PassthroughEnv) else ""
    install(session, nearest_release(here) if here else NEWEST)
    kept = Path(session.cache_dir) / "mutants.jsonl"
    session.run("python", "-m", "tests.mutants.run", "--out", str(kept), *session.posargs, env=WORKERS)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation in strict mode, and check every link on the site."""
    if not isinstance(session.virtualenv, PassthroughEnv):
        session.install("-e", ".[docs]")
    session.run("mkdocs", "build", "--strict", *session.posargs)
    session.run("python", "-m", "tools.links", "site")


@nox.session
def release(session: nox.Session) -> None:
    """Rehearse a release: all steps, or those given (check, build, try, docs). To check a tag, use `-- v0.2.0`."""
    if not isinstance(session.virtualenv, PassthroughEnv):
        session.install("--require-hashes", "-r", ".github/release.txt")
    tags = [f"--tag={word}" for word in session.posargs if word.startswith("v")]
    steps = {"check": ["check", *tags], "build": ["build"], "try": ["try"], "docs": ["rehearse-docs"]}
    for name in [word for word in session.posargs if word in steps] or steps:
        # The package is not installed, because this session builds it.
        session.run("python", "-m", "tools.release", *steps[name], env={"PYTHONPATH": "src", **BYTECODE})


def install(session: nox.Session, torch: str) -> None:
    """Set up the environment for one torch release; with --no-venv, keep the installed torch."""
    if isinstance(session.virtualenv, PassthroughEnv):
        install_beside_torch(session, torch)
    else:
        session.install(*RELEASES[torch], *PROJECT)


def install_beside_torch(session: nox.Session, torch: str) -> None:
    """Install the project and missing dependencies into the current environment without changing its torch."""
    installed = version_here("torch") or session.error("--no-venv requires torch in this environment")
    if torch != nearest_release(installed):
        session.skip(f"this environment has torch {installed}")
    if version_here("pytest-torch-compile"):
        return
    constraint = Path(session.create_tmp()) / "torch.txt"
    constraint.write_text(f"torch=={installed}\n", encoding="utf-8")
    session.run_install("python", "-m", "pip", "install", "--constraint", str(constraint), *PROJECT)


def torch_for(session: nox.Session) -> str:
    """The torch release for sessions that run on only one release; with --no-venv, the release closest to the installed
    torch.
    """
    if not isinstance(session.virtualenv, PassthroughEnv):
        return NEWEST
    return nearest_release(version_here("torch") or session.error("--no-venv requires torch in this environment"))


def version_here(distribution: str) -> str:
    """The version of a distribution in the current environment, or an empty string."""
    read = f"import importlib.metadata as m; print(m.version({distribution!r}))"
    return subprocess.run(["python", "-c", read], capture_output=True, text=True, check=False).stdout.strip()


def nearest_release(installed: str) -> str:
    """The newest release in the table that is not newer than the installed torch."""
    minor = [int(part) for part in installed.split(".")[:2]]
    fitting = [release for release in RELEASES if [int(part) for part in release.split(".")] <= minor]
    return fitting[-1] if fitting else NEWEST
