# The results of selector_table.sh as Markdown tables: awk -f bench/selector_table.awk RESULTS
{
    if (!($1 in models)) { models[$1]; order[++count] = $1 }
    row = $2 " | " $3
    if (!(($1, row) in rows)) { rows[$1, row]; list[$1, ++length_of[$1]] = row }
    value[$1, row, $4] = $5
}
END {
    for (m = 1; m <= count; m++) {
        printf "\n%s\n\n| selector | repair | 10 %% | 20 %% | 30 %% | 40 %% | 50 %% | 60 %% | 70 %% |\n", order[m]
        print "|---|---|---|---|---|---|---|---|---|"
        for (i = 1; i <= length_of[order[m]]; i++) {
            row = list[order[m], i]
            line = "| " row " |"
            any = 0
            for (s = 1; s <= 7; s++) {
                v = value[order[m], row, sprintf("0.%d", s)]
                any = any || (v != "-" && v != "")
                line = line " " v " |"
            }
            if (any) print line
        }
    }
}
