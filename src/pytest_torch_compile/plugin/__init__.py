"""The pytest plugin: the hooks, the fixtures, and other code that imports pytest."""

pytest_plugins = ["pytest_torch_compile.plugin.fixtures", "pytest_torch_compile.plugin.hooks"]
