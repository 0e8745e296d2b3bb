#!/usr/bin/env bash
# The distributed suites over NCCL, then the figures, on a machine with two GPUs: two_gpus.sh OUT. About 150 s.
set -u
out=$1
ready=$(mktemp -u)
mkdir -p "$out"
export TORCHINDUCTOR_COMPILE_THREADS=4
timeout -k 5 250 python3 -m benchmarks.coverage.parallel "$out" --limit 240 --ready "$ready" > "$out/parallel.log" 2>&1 &
figures=$!
tests=()
for suite in distributed fabric accelerate float8; do
    timeout -k 5 120 python3 -m pytest -q "suites/$suite" -m gpu --tb=short --durations=5 > "$out/$suite.log" 2>&1 &
    tests+=($!)
done
wait "${tests[@]}"
touch "$ready" # the cases have compiled meanwhile; their turns on the GPUs start only now
wait "$figures"
tail -n 4 "$out"/*.log
