"""What is checked in a fresh process: artifacts that ship, and results that must not depend on the process."""
