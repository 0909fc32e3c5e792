#!/usr/bin/env bash
# Builds grail on a minimal system: makes a minimal Debian in a chroot (debootstrap, variant minbase,
# with git), clones HEAD into it and runs ./run-demo.sh there. Uncommitted changes are not tested. Logs
# are in build/logs, the chroot and the fetched packages in build/fresh. Afterwards the chroot is
# removed; mounts and processes end with their namespace. Skipped (exit 77) without root, and where
# debootstrap cannot be installed.
#
# usage: tests/fresh/run.sh [--tests|--wheel] [--keep] [bookworm|trixie]
#   --tests   run ./run-tests.sh there instead of the demo
#   --wheel   make a wheel there (tools/make_wheel.sh), and install and use it on another minimal system
#   --keep    keep the chroot for inspection
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."
. tools/step.sh

release=bookworm program=demo keep=
for argument; do
    case $argument in
    --tests) program=tests ;;
    --wheel) program=wheel ;;
    --keep) keep=yes ;;
    bookworm | trixie) release=$argument ;;
    *)
        sed -n '8,11s/^# //p' "$0" >&2
        exit 2
        ;;
    esac
done

skip() {
    echo "SKIPPED fresh-$release: $*"
    exit 77
}

fail() {
    echo "FAILED fresh-$release: $*"
    exit 1
}

need_debootstrap() {
    command -v debootstrap >/dev/null && return
    command -v apt-get >/dev/null || skip "debootstrap is not installed, and apt-get is not there to install it"
    apt-get update -qq || fail "debootstrap is not installed, and apt-get cannot fetch the lists of packages"
    apt-cache show debootstrap >/dev/null 2>&1 || skip "debootstrap is not installed, and apt-get does not know it"
    apt-get install -qq --no-install-recommends debootstrap debian-archive-keyring >/dev/null ||
        fail "apt-get cannot install debootstrap"
}

((EUID == 0)) || skip "a chroot needs root"
need_debootstrap
root=$PWD/build/fresh/$release packages=$PWD/build/fresh/packages
mkdir -p build/logs "$packages"
exec {lock}>"build/fresh/$release.lock"
flock -n "$lock" || fail "another run is at work in $root"

# The mirror and the proxy of this machine's apt.
mirror=$(apt-get indextargets --no-release-info --format '$(REPO_URI)' 'Created-By: Packages' \
    2>/dev/null | grep -m 1 '^https\{0,1\}://.*/debian/$') || mirror=http://deb.debian.org/debian
eval "$(apt-config shell http_proxy Acquire::http::Proxy 2>/dev/null || true)"
export http_proxy

child=
clean_up() {
    local try
    # When this process ends, all others of its namespace end.
    [[ -z $child ]] || kill -KILL "$child" 2>/dev/null || true
    wait
    if [[ -n $keep ]]; then
        echo "kept: unshare --mount --pid --fork --mount-proc --root=$root --wd=/grail bash"
        return
    fi
    for try in 1 2 3 4 5; do
        rm -rf --one-file-system "$root" && return
        sleep 1
    done
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# confined COMMAND...: unshare's options come first. In the background, where a signal to this script
# need not wait for the command's end.
confined() {
    local code=0
    unshare --mount --pid --fork --kill-child --mount-proc "$@" </dev/null &
    child=$!
    wait "$child" || code=$?
    child=
    return "$code"
}

# The chroot shares only the access to the mirror with this machine. The keys of trixie are in the
# debian-archive-keyring of bookworm's point releases.
make_system() {
    confined debootstrap --variant=minbase --include=git,ca-certificates --force-check-gpg \
        --cache-dir="$packages" "$release" "$root" "$mirror" || return
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/" || return
    apt-config dump 2>/dev/null | grep -E '^Acquire::(https?::|Check-)' \
        >"$root/etc/apt/apt.conf.d/90mirror" || true
    git clone --depth 1 "file://$PWD" "$root/grail"
}

# The access of this machine to PyPI, for wheels.
pypi=()
share_pypi() {
    local name
    for name in PIP_INDEX_URL https_proxy; do
        [[ -z ${!name-} ]] || pypi+=("$name=${!name}")
    done
    if [[ -n ${PIP_CERT-} ]]; then
        cp -L "$PIP_CERT" "$root/etc/ssl/certs/pypi.crt"
        pypi+=(PIP_CERT=/etc/ssl/certs/pypi.crt)
    fi
}

# Makes a wheel, then a second system that has Python alone.
make_wheel() {
    local wheel
    rm -rf build/wheel
    share_pypi
    step "fresh-$release-wheel" run_inside tools/make_wheel.sh --here || return
    cp -r "$root/grail/build/wheel" build/
    wheel=$(basename build/wheel/*.whl)
    rm -rf --one-file-system "$root"
    step "fresh-$release-second" make_system || return
    share_pypi
    cp "build/wheel/$wheel" "$root/"
    step "fresh-$release-use" run_inside tools/make_wheel.sh --try "/$wheel" || return
    ls -l build/wheel
}

# run_inside PROGRAM: packages that it fetches are there for the next run
run_inside() {
    local code=0 archives=$root/var/cache/apt/archives
    cp -lf "$packages"/*.deb "$archives/" || return
    confined --root="$root" --wd=/grail env -i HOME=/root TERM=dumb \
        PATH=/usr/sbin:/usr/bin:/sbin:/bin ${http_proxy:+"http_proxy=$http_proxy"} "${pypi[@]}" "$@" || code=$?
    cp -lf "$archives"/*.deb "$packages/"
    return "$code"
}

# tell_failure STEP
tell_failure() {
    if grep -qE 'Failed getting release|Failed to fetch|Temporary failure resolving|not be downloaded' \
        "build/logs/$1.log"; then
        fail "packages cannot be fetched from $mirror"
    fi
    fail "see build/logs/$1.log"
}

echo "fresh-$release: $(git log -1 --format='%h "%s"') on a minimal system from $mirror"
rm -rf --one-file-system "$root"
step "fresh-$release-system" make_system || tell_failure "fresh-$release-system"
if [[ $program == wheel ]]; then
    make_wheel || fail "see build/logs"
    exit
fi
share_pypi
step "fresh-$release-$program" run_inside "./run-$program.sh" || tell_failure "fresh-$release-$program"
tail -n 1 "build/logs/fresh-$release-$program.log"
