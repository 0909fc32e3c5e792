#!/usr/bin/env bash
# The same for stories260k, a model and a text that others made: the published perplexity, and a cut
# repaired as well as the prototype of the methods did. Needs the shared data.
#
# usage: test_recovery_stories.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

stories=$shared/stories260k text=$shared/text/tinystories.txt
[[ -d $stories && -f $text ]] || skip "stories260k and tinystories.txt are not in $shared"

check "stories260k: the published perplexity 4.43 on the first 60 windows"
windows=(--protocol lines --window-bos --context 256) measured=()
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
