#!/usr/bin/env bash
# Repair works: on text that neither training nor calibration has seen, a repaired model lies
# between the dense one and the plain cut, however deep the cut.
#
# usage: test_recovery.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

windows=(--context 256) measured=(--windows 48)
dense=$(perplexity "$demo/model" "$demo/held-out.txt" "${windows[@]}" "${measured[@]}")
for sparsity in ${GRAIL_TEST_ALL:+0.2} 0.3 0.5; do
    check "demonstration model, $sparsity of FFN and heads: dense < full < grail < plain cut"
    demo_cut=("$demo/model" "$demo/calibration.txt" "$demo/held-out.txt" --samples 64 --sparsity "$sparsity")
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
