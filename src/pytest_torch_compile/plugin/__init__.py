"""The pytest plugin: everything that imports pytest."""

pytest_plugins = ["pytest_torch_compile.plugin.fixtures", "pytest_torch_compile.plugin.hooks"]
