"""The speed gate: measuring (torch), statistics and verdict (neither torch nor pytest)."""
