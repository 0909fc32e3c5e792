#include "arch/tied_head.h"

#include "arch/decoder.h"

#include <string.h>

grail_status tied_head_compare(grail_model *m, const char *source, int64_t *copy, bool *differs)
{
    const decoder_family *family = m->architecture->family;
    const int embeddings = graph_find_parameter(m->graph, "model.embed_tokens.weight");
    *copy = -1;
    *differs = false;
    /* A GGUF file ties by the lack of a head. */
    if (family == NULL || family->encoder || checkpoint_metadata(m->checkpoint) != NULL ||
        graph_find_parameter(m->graph, "lm_head.weight") != GRAPH_NONE) {
        return GRAIL_OK;
    }
    const int64_t place = checkpoint_place_of(m->checkpoint, decoder_head_place(family).tensor);
    if (place < 0) {
        return GRAIL_OK;
    }
    const tensor_view *head = checkpoint_at(m->checkpoint, place);
    const tensor_view *table =
        checkpoint_find(m->checkpoint, m->graph->parameters[embeddings].tensor);
    if (table == NULL) {
        return GRAIL_OK; /* which is an error of its own */
    }
    CHECK(checkpoint_need(m->checkpoint, head));
    CHECK(checkpoint_need(m->checkpoint, table));
    /* Those of one file of torch may be one storage. Values that are equal in another dtype count
     * as another head, which is right, too. */
    bool same = head->dtype == table->dtype && head->rank == table->rank &&
                head->bytes == table->bytes && head->scales == table->scales;
    for (int d = 0; same && d < head->rank; d++) {
        same = head->shape[d] == table->shape[d];
    }
    *differs =
        !same || (head->data != table->data && memcmp(head->data, table->data, head->bytes) != 0);
    checkpoint_release(m->checkpoint, head);
    checkpoint_release(m->checkpoint, table);
    if (!*differs) {
        *copy = place;
        return GRAIL_OK;
    }
    CHECK(json_put(m->config, "tie_word_embeddings", json_false()));
    return model_add_notice(m,
                            "%s ties the head to the embeddings, but tensor '%s' differs from "
                            "'%s'; it is read as the head, as transformers 5 and vLLM do, and "
                            "results say \"tie_word_embeddings\": false",
                            source, head->name, table->name);
}
