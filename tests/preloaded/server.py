"""Import torch and its compiler once, and fork a process for each request of ``launch.py``.

The server creates no tensors and compiles nothing, so a forked process behaves like a new one. It ends when the process
that started it ends, and it ends a forked process whose launcher has ended.
"""

import atexit
import contextlib
import fcntl
import gc
import importlib
import io
import json
import os
import pkgutil
import random
import runpy
import selectors
import signal
import socket
import sys
import threading
from pathlib import Path

# Modules that ask for the number of GPUs are not among them, because CUDA could not be used in forked processes.
PRELOADED = (
    "torch", "torch._dynamo", "torch._inductor.compile_fx", "torch._functorch.aot_autograd", "torch.export._trace",
    "torch.testing", "torch._inductor.runtime.triton_heuristics", "torch._inductor.fx_passes.joint_graph",
    # The first compilation imports these modules.
    "torch._dynamo.backends.cudagraphs", "torch._dynamo.backends.distributed", "torch._dynamo.backends.inductor",
    "torch._inductor.compiler_bisector", "torch.fx.experimental.validator", "torch._subclasses.schema_check_mode",
    "torch.distributed.tensor.experimental._attention", "torch._export.db.logging",
    "torch._inductor.choices", "torch._inductor.bounds", "torch._inductor.codegen.cpp", "torch._inductor.codegen.triton",
    "torch._inductor.codegen.cuda_combined_scheduling", "torch._inductor.codegen.halide", "torch._inductor.codegen.mps",
    "torch._inductor.codegen.pallas", "torch._inductor.codegen.wrapper_fxir", "torch._inductor.runtime.caching",
    "torch._inductor.fx_passes.fuse_attention", "torch._inductor.fx_passes.mkldnn_fusion", "sympy.tensor.tensor",
    "torch._inductor.fx_passes.pad_mm", "torch._inductor.fx_passes.quantization", "torch._inductor.kernel_template_choice",
    "torch._inductor.fx_passes.freezing_patterns", "torch._inductor.fx_passes.efficient_conv_bn_eval",
    # For plugins, see ``import_plugins``.
    "pytest", "execnet", "cpuinfo", "xml.etree.ElementTree", "asyncio",
)  # fmt: skip
IMPORTED_BY_PLUGINS = (
    "hypothesis.internal.observability", "pytest_torch_compile.action.steps", "pytest_torch_compile.check.check_compile",
    "pytest_torch_compile.cli.commands", "pytest_torch_compile.existing.checking", "pytest_torch_compile.fresh.answers",
    "pytest_torch_compile.plan.collect", "pytest_torch_compile.ranks.rank",
)  # fmt: skip
# The modules in these packages.
PRELOADED_PACKAGES = ("torch._inductor.fx_passes.serialized_patterns", "_pytest")


def main() -> None:
    address = sys.argv[1]
    started_with = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    base = [entry for entry in sys.path[1:] if entry not in started_with]
    sys.path.insert(1, str(Path(__file__).parents[2]))
    from tests import preloaded

    del sys.path[1]
    packages = [importlib.import_module(name) for name in PRELOADED_PACKAGES]
    members = [f"{one.__name__}.{module.name}" for one in packages for module in pkgutil.iter_modules(one.__path__)]
    for name in (*PRELOADED, *members):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    import_plugins()
    # torch times the guards of each graph, and clears the CPU's caches before it does, which takes 20 to 40 ms.
    if hasattr(guards := sys.modules.get("torch._dynamo.guards"), "profile_guard_manager"):
        guards.profile_guard_manager = lambda *_: 0.0
    gc.collect()
    gc.freeze()
    gc.set_threshold(*preloaded.GC_THRESHOLDS)
    if (request := serve(address)) is None:
        return
    preloaded.install(address)
    try:
        run(request, base, request["environment"].get(preloaded.DISABLE_CACHES) == "1")
        code = 0
    except SystemExit as exit:
        code = exit.code if isinstance(exit.code, int) else int(exit.code is not None)
        if exit.code is not None and not isinstance(exit.code, int):
            print(exit.code, file=sys.stderr)
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>"):
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        code = 1
        if isinstance(error, KeyboardInterrupt):
            sys.stderr.flush()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
    # Python would now destroy the objects of all modules, which takes longer than most of the programs.
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code & 0xFF)


def import_plugins() -> None:
    """Import pytest's plugins as a session does, so that their assertions are rewritten, and modules that they import
    later.
    """
    from _pytest.config import _prepareconfig

    config = _prepareconfig(["--noconftest", "-s", "-c", os.devnull])
    for name in IMPORTED_BY_PLUGINS:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    config._ensure_unconfigure()
    # Some of these modules record the parent process when they are imported, so each process imports them itself.
    for name in [name for name in sys.modules if name.startswith("pytest_torch_compile.plugin")]:
        del sys.modules[name]
    if own := sys.modules.get("pytest_torch_compile"):
        vars(own).pop("plugin", None)


def serve(address: str) -> "dict | None":
    """Return a request in the process that is forked for it, and None in the server when it ends."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen(16)
    print("listening", flush=True)
    for number in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    ended, wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    ready = selectors.DefaultSelector()
    for file in (0, listening, ended):
        ready.register(file, selectors.EVENT_READ)
    connections: dict[socket.socket, int] = {}
    while True:
        for key, _ in ready.select():
            if key.fileobj == 0:
                return None
            if key.fileobj is listening:
                connection = listening.accept()[0]
                request, files = _received(connection)
                if (process := os.fork()) == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for file in (ended, wakeup):
                        os.close(file)
                    for one in (ready, listening, connection, *connections):
                        one.close()
                    _renumber(files, request["files"])
                    return request
                for file in files:
                    os.close(file)
                connection.sendall(f"{process}\n".encode())
                connections[connection] = process
                ready.register(connection, selectors.EVENT_READ)
            elif key.fileobj == ended:
                os.read(ended, 4096)
            else:  # the launcher has ended, for example because its process group was killed
                _end(connections.pop(key.fileobj))
                ready.unregister(key.fileobj)
                key.fileobj.close()
        _tell_ended(connections, ready)


def _end(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
        return
    with contextlib.suppress(ProcessLookupError):  # it leads no group
        os.kill(process, signal.SIGKILL)


def _tell_ended(connections: "dict[socket.socket, int]", ready: selectors.BaseSelector) -> None:
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not process:
            return
        for connection in [one for one, its in connections.items() if its == process]:
            with contextlib.suppress(OSError):
                connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
            ready.unregister(connection)
            connection.close()
            del connections[connection]


def _renumber(files: "list[int]", numbers: "list[int]") -> None:
    """Give the open ``files`` the ``numbers`` that they have in the launcher."""
    above = max(*files, *numbers) + 1
    moved = [fcntl.fcntl(file, fcntl.F_DUPFD, above) for file in files]
    for file in files:
        os.close(file)
    for file, number in zip(moved, numbers, strict=True):
        os.dup2(file, number)
        os.close(file)


def _received(connection: socket.socket) -> "tuple[dict, list[int]]":
    head, files, _, _ = socket.recv_fds(connection, 8, 16)
    size, message = int.from_bytes(head, "big"), io.BytesIO()
    while message.tell() < size:
        message.write(connection.recv(1 << 16))
    return json.loads(message.getvalue()), list(files)


def run(request: dict, base: "list[str]", disables_caches: bool) -> None:
    """Run the program of a request, as Python would."""
    if "--multiprocessing-fork" not in request["argv"]:  # such a process may start a session, so it must lead no group
        os.setpgid(0, 0)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    if disables_caches:
        sys.modules["torch._inductor.config"].force_disable_caches = True
    random.seed()
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    option, *others = request["argv"]
    alone = False
    while option in ("-I", "-u", "-B"):
        alone |= option == "-I"
        sys.dont_write_bytecode |= option == "-B"
        if option == "-u":
            sys.stdout, sys.stderr = _unbuffered(sys.stdout), _unbuffered(sys.stderr)
        option, *others = others
    added = [entry or os.getcwd() for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    if option == "-m":
        sys.path[:] = [os.getcwd(), *added, *base]
        sys.argv = others
        if not hasattr(sys.modules.get(others[0]), "__path__"):  # not a package, which runs its module ``__main__``
            sys.modules.pop(others[0], None)
        runpy.run_module(others[0], run_name="__main__", alter_sys=True)
    elif option == "-c":
        sys.path[:] = ["", *added, *base]
        sys.argv = ["-c", *others[1:]]
        main = type(sys)("__main__")
        main.__builtins__ = __builtins__
        sys.modules["__main__"] = main
        exec(compile(others[0], "<string>", "exec"), main.__dict__)
    else:
        sys.path[:] = base if alone else [os.path.dirname(os.path.abspath(option)), *added, *base]
        sys.argv = [option, *others]
        runpy.run_path(option, run_name="__main__")


def _unbuffered(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    file = io.FileIO(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(file, stream.encoding, stream.errors, write_through=True)


main()
