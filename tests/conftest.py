"""The plugin, where the tests run from a source tree that is not installed."""

from importlib import metadata

if not any(entry.name == "torch_compile" for entry in metadata.entry_points(group="pytest11")):
    pytest_plugins = ["pytest_torch_compile.plugin"]
