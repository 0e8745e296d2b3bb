"""The compile cache of a test run: a folder, or artifacts in remote storage."""
