# Sourced by the scripts that make the tables of docs/results.
#
# A cell is a network, dense or made by a command, and what it measures on some data. The file of cells has a line
# for each: KEY SECONDS PARAMETERS FIGURE..., where a figure is a perplexity or a top-1 accuracy in %, and "-" where
# the run was refused. A cell that is there is not measured again, so an interrupted table continues.
export LC_ALL=C OMP_WAIT_POLICY=${OMP_WAIT_POLICY-passive}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
data=${GRAIL_SHARED_DATA:-$root/../shared/data}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cells_begin() { # CELLS [GRAIL [ANY...]]
    (($# > 0)) || { sed -n '/^# usage/,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
    cells=$1
    grail=${2:-$root/build/release/bin/grail}
    touch "$cells"
}

has() { [[ $(field "$1" 1) == "$1" ]]; } # KEY

json_number() { # KEY FILE: the first number of this key in a document with one key per line
    sed -n "s/^ *\"$1\": \\([-+.0-9e]*\\).*/\\1/p" "$2" | head -n 1
}

figure() { # MODEL EVAL-OPTIONS...
    if ! "$grail" eval "$@" --quiet --json >"$work/eval.json" 2>>"$work/log"; then
        tail -n 1 "$work/log" >&2
        return 1
    fi
    awk -F'[:,]' '/^ *"perplexity"/ { printf "%.6g", $2 } /^ *"top1"/ { printf "%.2f", 100 * $2 }' "$work/eval.json"
}

# cell KEY dense MODEL -- EVAL-OPTIONS... [-- EVAL-OPTIONS...]
# cell KEY compress MODEL OPTIONS... -- EVAL-OPTIONS... [-- EVAL-OPTIONS...]
cell() {
    local key=$1 command=$2 model=$3 begun=$SECONDS options=() figures=() parameters=- group
    has "$key" && return
    shift 3
    while [[ $1 != -- ]]; do options+=("$1"); shift; done
    : >"$work/log"
    if [[ $command != dense ]]; then
        rm -rf "$work"/out*
        if ! "$grail" "$command" "$model" -o "$work/out" "${options[@]}" --quiet --json >"$work/summary.json" 2>>"$work/log"; then
            echo "$key $((SECONDS - begun)) - -" >>"$cells"
            echo "$key: $(tail -n 1 "$work/log")" >&2
            return
        fi
        model=$work/out
        parameters=$(json_number parameters "$work/summary.json")
    fi
    while (($# > 0)); do
        shift
        group=()
        while (($# > 0)) && [[ $1 != -- ]]; do group+=("$1"); shift; done
        figures+=("$(figure "$model" "${group[@]}")")
    done
    echo "$key $((SECONDS - begun)) ${parameters:--} ${figures[*]}" >>"$cells"
    echo "$key: ${figures[*]}, $((SECONDS - begun)) s" >&2
}

field() { # KEY N: of a cell's line
    awk -v key="$1" -v n="$2" '$1 == key { print (NF < n ? "-" : $n); exit }' "$cells"
}

# One number of a cell as it stands in a table; its first figure unless N is given.
value() { # KEY FORMAT [N]
    local number
    number=$(field "$1" $((3 + ${3:-1})))
    if [[ ${number:--} == - ]]; then printf -- -; else awk -v f="$2" -v x="$number" 'BEGIN { printf f, x }'; fi
}

heading() { # COLUMN...
    printf '\n|'
    printf ' %s |' "$@"
    printf '\n|'
    printf -- '---|%.0s' "$@"
    printf '\n'
}

row() { # CELL...
    printf '|'
    printf ' %s |' "$@"
    printf '\n'
}

# Halves of a text, by lines: $work/first.txt and $work/second.txt.
halve() { # FILE
    local lines
    lines=$(wc -l <"$1")
    head -n $((lines / 2)) "$1" >"$work/first.txt"
    tail -n +$((lines / 2 + 1)) "$1" >"$work/second.txt"
}
