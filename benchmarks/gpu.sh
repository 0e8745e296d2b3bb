#!/usr/bin/env bash
# Run all suites on the GPUs of a machine that has torch, transformers and pytest, without installing anything:
#   benchmarks/gpu.sh [FOLDER for the log] [pytest arguments]
# The final line of the output counts the results. The exit status is pytest's. Each worker needs a CPU core and 3 GB of
# GPU memory. WORKERS sets the number of workers. LIMIT sets the time limit in seconds; a run that exceeds it is stopped.
# Without pytest arguments, the time that is left is used to compare plans with the code that the GPU runs. If they differ,
# the exit status is 1.
# PYTHONPATH may contain another torch. Tests of CPU process groups (gloo) are left out.
set -u
cd "$(dirname "$0")/.." || exit
folder=${1:-.}
[ $# -gt 0 ] && shift
mkdir -p "$folder"
log=$folder/gpu.log
cores=$(env -u OMP_NUM_THREADS nproc) # nproc would return the value of this variable
longest_first=(suites/shipping suites/captioning suites/cold_start suites/invariance suites/distributed suites)
export PYTHONPATH=$PWD/src${PYTHONPATH:+:$PYTHONPATH} OMP_NUM_THREADS=1 TORCHINDUCTOR_COMPILE_THREADS=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
timeout "${LIMIT:-590}" python3 -m pytest -p pytest_torch_compile.plugin -o addopts="-ra --import-mode=importlib" -v \
    -n "${WORKERS:-$((cores > 30 ? 28 : cores))}" --dist load --maxschedchunk 1 --compile-device=cuda --benchmark-skip -k "not gloo" \
    --durations=20 "${@:-${longest_first[@]}}" >"$log" 2>&1
status=$?
grep -E "^(FAILED|ERROR) " "$log" | cut -c1-300
[ $status -eq 124 ] && echo "stopped after ${LIMIT:-590} s; tests that failed before that:" && grep -oE "(FAILED|ERROR) suites[^ ]*" "$log"
versions=$(python3 -c "import torch, transformers; print(f'torch {torch.__version__}, transformers {transformers.__version__}')")
cards=$(python3 -c "import torch; n = torch.cuda.device_count(); print(n, torch.cuda.get_device_name() if n else 'GPUs')")
echo "$(tail -1 "$log" | tr -d '=' | sed 's/^ *//; s/ *$//') | $cards, $cores cores | $versions"
left=$((${LIMIT:-590} - SECONDS - 60)) # the cases that are running at the end need up to a minute more
if [ $# -eq 0 ] && [ $left -lt 60 ]; then
    echo "plan against card: not compared, because no time was left"
elif [ $# -eq 0 ]; then
    CUBLAS_WORKSPACE_CONFIG=:0:0 CUBLASLT_WORKSPACE_SIZE=0 python3 -m tests.plan.against_card --jobs "$cores" \
        --seconds $left >"$folder/plans.log" 2>&1 || status=$((status ? status : 1))
    grep -E ": (different|failed): " "$folder/plans.log" | cut -c1-300
    tail -1 "$folder/plans.log"
fi
exit $status
