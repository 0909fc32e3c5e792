#include "gguf_facts.h"

#include "print.h"
#include "shared_options.h"

#include <string.h>

int print_gguf_facts(const char *output, const grail_gguf_facts *facts, json_t *notices)
{
    char bytes[HUMAN_SIZE];
    if (facts->shortfall[0] != 0) {
        print_error("grail: warning: %s: %s\n", output, facts->shortfall);
    }
    if (asked.as_json) {
        return print_json(json_of("file", J(output), "architecture", J(facts->architecture), "type",
                                  J(facts->type), "table", J(facts->table), "group",
                                  J(facts->group), "tensors", J(facts->tensors), "bytes",
                                  J(facts->bytes), "others", J(facts->others), "shortfall",
                                  J(facts->shortfall), "notices", notices, NULL));
    }
    json_decref(notices);
    if (facts->group > 0) {
        print_out("%s: %s, %s, %s, %lld matrices in groups of %lld\n", output, facts->architecture,
                  facts->type, human_bytes((double)facts->bytes, bytes), (long long)facts->tensors,
                  (long long)facts->group);
        return EXIT_OK;
    }
    print_out("%s: %s, %s, %s, %lld tensors\n", output, facts->architecture, facts->type,
              human_bytes((double)facts->bytes, bytes), (long long)facts->tensors);
    if (strcmp(facts->table, facts->type) != 0) {
        print_out("  the head, or the table of embeddings that it shares, is %s\n", facts->table);
    }
    return EXIT_OK;
}
