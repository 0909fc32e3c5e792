# Sourced by the scripts that run a series of long commands, from the root of the checkout.

failed=0

# step NAME COMMAND...: runs it with its output in build/logs/NAME.log; a failure is shown and counted
step() {
    local name=$1 log=build/logs/$1.log started=$SECONDS
    shift
    printf '%-22s' "$name"
    if "$@" >"$log" 2>&1; then
        echo "ok      $((SECONDS - started)) s"
    else
        echo "FAILED  $((SECONDS - started)) s, see $log"
        { grep -E "error:|CMake Error|FAILED|^E: " "$log" || tail -n 20 "$log"; } | head -n 20 | cut -c 1-200
        failed=$((failed + 1))
        return 1
    fi
}
