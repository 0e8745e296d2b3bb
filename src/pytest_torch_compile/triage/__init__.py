"""Compare the test results of one commit under two torch releases, and group the failures by cause."""
