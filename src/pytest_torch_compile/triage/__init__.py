"""Compare the tests of one commit under two torch releases, and group new failures by cause."""
