#!/usr/bin/env bash
# That repair does what it is for: on text that neither training nor calibration has seen, a repaired
# model lies between the dense one and the plain cut, however deep the cut.
#
# usage: test_recovery.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

# cut_perplexity REPAIR MODEL CALIBRATION EVALUATION OPTIONS...: of the model cut and repaired so
cut_perplexity() {
    local repair=$1 model=$2 calibration=$3 evaluation=$4
    shift 4
    rm -rf out
    runs "$grail" compress "$model" -o out --calib "$calibration" --compensate "$repair" --quiet \
        --align 1 --selector wanda "${windows[@]}" "$@"
    perplexity out "$evaluation" "${windows[@]}"
}

# share DENSE PLAIN REPAIRED: of the lost log-perplexity that the repair wins back
share() {
    calculate "(log($2) - log($3)) / (log($2) - log($1))"
}

# compare REPAIR DENSE PLAIN REPAIRED: prints, and checks the order
compare() {
    echo "   dense $2, plain cut $3, repaired by $1 $4: $(share "$2" "$3" "$4") of the loss won back"
    holds "$2 < $4 && $4 < $3"
}

windows=(--context 256)
dense=$(perplexity "$demo/model" "$demo/held-out.txt" "${windows[@]}")
for sparsity in 0.2 0.3 0.5; do
    check "demonstration model, $sparsity of FFN and heads: dense < full < grail < plain cut"
    demo_cut=("$demo/model" "$demo/calibration.txt" "$demo/held-out.txt" --sparsity "$sparsity")
    plain=$(cut_perplexity none "${demo_cut[@]}")
    paper=$(cut_perplexity grail "${demo_cut[@]}")
    full=$(cut_perplexity full "${demo_cut[@]}")
    compare grail "$dense" "$plain" "$paper"
    compare full "$dense" "$plain" "$full"
    holds "$full < $paper"
    if [[ $sparsity != 0.2 ]]; then
        check "demonstration model, $sparsity: the default repair wins back at least half of the loss"
        holds "$(share "$dense" "$plain" "$full") >= 0.5"
    fi
done

stories=$shared/stories260k text=$shared/text/tinystories.txt
[[ -d $stories && -f $text ]] || skip "stories260k and tinystories.txt are not in $shared"

check "stories260k: the published perplexity 4.43 on the first 60 windows"
windows=(--protocol lines --window-bos --context 256)
published=$(perplexity "$stories" "$text" "${windows[@]}" --windows 60)
echo "   $published"
holds "$published > 4.425 && $published < 4.435"

check "stories260k, 0.25 of KV groups and FFN neurons, calibrated on the other half of the text"
lines=$(($(wc -l <"$text") / 2))
head -n "$lines" "$text" >first.txt
tail -n +$((lines + 1)) "$text" >second.txt
dense=$(perplexity "$stories" first.txt "${windows[@]}")
half_cut=("$stories" second.txt first.txt --sparsity 0.25)
plain=$(cut_perplexity none "${half_cut[@]}")
paper=$(cut_perplexity grail "${half_cut[@]}")
full=$(cut_perplexity full "${half_cut[@]}")
compare grail "$dense" "$plain" "$paper"
compare full "$dense" "$plain" "$full"
# what the prototype of the methods reached on this cut
holds "$(share "$dense" "$plain" "$paper") > 0.36 && $(share "$dense" "$plain" "$full") > 0.41"
