#!/usr/bin/env bash
# Images per second of the forward pass against Debian's torch, in turn on the same batch; one JSON
# object per network. Needs python3-torch and python3-torchvision.
# Usage: bench/forward.sh [BENCH_FORWARD [options of bench_forward_torch.py]]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
program=${1:-$root/build/release/bin/bench_forward}
shift || true
python=/usr/bin/python3 # Debian's torch is installed for this one

"$python" "$root/bench/bench_forward_torch.py" "$program" "$@"
# Debian's torch takes the system's BLAS. Where that is BLIS, it takes slow kernels on processors
# newer than itself, which slows the products of a transformer down. So the measurement is repeated
# with the kernels that grail chooses: 0 is skx, 3 is haswell.
kernel=3
if grep -qw avx512vl /proc/cpuinfo; then
    kernel=0
fi
echo "BLIS_ARCH_TYPE=$kernel:" >&2
BLIS_ARCH_TYPE=$kernel "$python" "$root/bench/bench_forward_torch.py" "$program" "$@" \
    --networks vit-b-32
