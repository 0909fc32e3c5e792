#!/usr/bin/env bash
# One run in N ranks, each in a network namespace of its own, whose link is limited by tc: seconds, processor seconds
# of all ranks together, and KiB that each rank has sent. Needs root, iproute2 and Open MPI.
#
# usage: bench/ranks_network.sh GRAIL MODEL TEXT [RANKS [RATE [WINDOWS [CONTEXT]]]]
#   BURST  bytes that a link passes at once when it was idle (512kb)
set -euo pipefail
grail=$(realpath "$1") model=$(realpath "$2") text=$(realpath "$3")
ranks=${4-2} rate=${5-1gbit} windows=${6-16} context=${7-512}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_WAIT_POLICY=passive
bridge=grail-br
work=$(mktemp -d)

remove() {
    local i
    for ((i = 1; i <= ranks; i++)); do
        ip netns del "grail$i" 2>/dev/null || true
        ip link del "grail-v$i" 2>/dev/null || true
    done
    ip link del "$bridge" 2>/dev/null || true
    rm -rf "$work"
}
trap remove EXIT

# limit COMMAND...: COMMAND is tc, or tc within a namespace
limit() {
    "$@" root tbf rate "$rate" burst "${BURST-512kb}" latency 400ms
}

ip link add "$bridge" type bridge
ip addr add 10.77.7.254/24 dev "$bridge"
ip link set "$bridge" up
hosts=
for ((i = 1; i <= ranks; i++)); do
    ip netns add "grail$i"
    ip link add "grail-v$i" type veth peer name eth0 netns "grail$i"
    ip link set "grail-v$i" master "$bridge" up
    ip netns exec "grail$i" ip link set lo up
    ip netns exec "grail$i" ip addr add "10.77.7.$i/24" dev eth0
    ip netns exec "grail$i" ip link set eth0 up
    limit tc qdisc add dev "grail-v$i"
    limit ip netns exec "grail$i" tc qdisc add dev eth0
    hosts+=${hosts:+,}grail$i
done

# Starts a command of the launcher in the namespace that a host's name stands for.
cat >"$work/agent" <<'EOF'
#!/bin/sh
host=$1
shift
exec ip netns exec "$host" /bin/sh -c "$*"
EOF
chmod +x "$work/agent"

begun=$EPOCHREALTIME
mpirun --mca plm_rsh_agent "$work/agent" --mca plm_rsh_no_tree_spawn 1 --host "$hosts" --bind-to none \
    --mca oob_tcp_if_include "$bridge,eth0" --mca btl tcp,self --mca btl_tcp_if_include eth0 -n "$ranks" \
    /usr/bin/time -a -o "$work/times" -f '%M %U %S' "$grail" compress "$model" -o "$work/out" --calib "$text" \
    --samples "$windows" --context "$context" --sparsity 0.3 --threads 1 --quiet >"$work/stdout" 2>"$work/stderr" ||
    { cat "$work/stderr" >&2; exit 1; }
ended=$EPOCHREALTIME
for ((i = 1; i <= ranks; i++)); do
    sent=$(ip netns exec "grail$i" cat /sys/class/net/eth0/statistics/tx_bytes)
    echo "rank $((i - 1)) sent $((sent / 1024)) KiB"
done
awk -v a="$begun" -v b="$ended" -v n="$ranks" -v r="$rate" '{ s += $2 + $3 }
    END { printf "%d ranks, %s: %.1f s, %.1f s of processor time in all\n", n, r, b - a, s }' "$work/times"
