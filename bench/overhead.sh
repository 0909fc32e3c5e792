#!/usr/bin/env bash
# The paper's overhead table: what narrowing costs on random weights of three published shapes, 128
# images resized from CIFAR-10, 50 % of all widths, on this machine.
#
# usage: bench/overhead.sh BUILD_DIRECTORY CIFAR_DIRECTORY
set -euo pipefail
export LC_ALL=C OMP_WAIT_POLICY=${OMP_WAIT_POLICY-passive}
build=$1 images=$2
here=$(dirname "$0")
shapes=$(mktemp -d)
trap 'rm -rf -- "$shapes"' EXIT
/usr/bin/python3 "$here/make_shapes.py" "$shapes"

number() {
    sed -n "s/^ *\"$1\": \\([-+.0-9e]*\\).*/\\1/p"
}

printf '%-18s %-7s %12s %12s %12s\n' network repair "calibrate s" "compensate s" "peak GB"
for row in "resnet18 imagenet conv,stream" "vit_b_32 vit ffn" "clip_vit_b_32 clip ffn"; do
    read -r name preset kinds <<<"$row"
    for repair in grail full; do
        result=$("$build/bin/bench_overhead" "$shapes/$name.pth" "$images" --preset "$preset" \
            --kinds "$kinds" --compensate "$repair")
        printf '%-18s %-7s %12.1f %12.1f %12.2f\n' "$name" "$repair" \
            "$(number calibrate_seconds <<<"$result")" "$(number compensate_seconds <<<"$result")" \
            "$(number peak_resident_bytes <<<"$result" | awk '{ print $1 / 1e9 }')"
    done
done
