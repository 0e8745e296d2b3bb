"""Every constant of the speed gate, with its reason. The study of the gate has the figures."""

# The chance that any time of an unchanged suite turns red is 1 %. A fifth of it is shared out: stored runs that are
# fast by chance make the first run look slow and the further ones too, and times have longer tails than a t test takes.
FAMILY_LEVEL = 0.002
# A further compilation is asked where a time would be so rare by chance: 5 to 7 in all for 24 unchanged tests. A gain
# has to be rarer, as it fails nothing.
SCREEN_OF_A_LOSS, SCREEN_OF_A_GAIN = 0.05, 0.005
# Few compilations may all have the same tuning, as the stored ones of one test, a quarter slower than the next, had. So
# there have to be so many of both that their ranks alone could show a change: in so many orders they could lie. With
# 5 stored runs it takes 7 further ones, with 7 it takes 5, with 10 it takes 4, with 15 it takes 3; with fewer than 5
# none are enough.
MIN_ORDERS = 700
# The first compilation counted.
MAX_COMPILATIONS = 8
# Few stored runs estimate a spread badly: it is drawn towards the typical one as if that came from four more runs.
PRIOR_FREEDOM = 4
# Above this share of the wall time the host is what a call waits for, so that its time is compared with eager's.
HOST_BOUND = 0.9
# An unchanged test gathers runs up to this number.
MAX_RUNS = 20
# Runs of so many devices of one model show how devices differ: then any other one can be judged.
ENOUGH_DEVICES = 3
# A side that made so much of a change of wall time is named alone.
MOST = 0.7

# A change of a time under its floor is not called.
FLOORS = {"device": 0.01, "wall": 0.02, "start": 0.25, "warm_start": 0.25}
# The typical standard deviation of the log of a time: between compilations, and between processes of one kept cache,
# which run the same code.
SPREADS = {"device": 0.015, "wall": 0.025, "start": 0.08, "warm_start": 0.08}
SPREADS_OF_A_KEPT_CACHE = {"device": 0.003, "wall": 0.008, "start": 0.08, "warm_start": 0.08}

# Memory is asked for in whole tensors. Where the compiler's tuning pads one or not, it moved by 0.4 %.
MEMORY_SHARE = 0.01
# Processes that ran the same code differed by up to four calls of some thousands; a kernel more is about fifteen calls.
PYTHON_CALLS_SHARE, PYTHON_CALLS_NUMBER = 0.01, 4
