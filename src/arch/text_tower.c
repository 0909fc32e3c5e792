/* Sources: the composed configurations of Hugging Face transformers 5.24 (Gemma3Config,
 * LlavaConfig, Mistral3Config and others), and the defaults of the configuration classes that they
 * hold. */
#include "arch/text_tower.h"

#include "arch/decoder.h"
#include "base/name_list.h"

#include <string.h>

/* The class that opens a language model alone, and what "text_config" leaves out where it is the
 * default of its class. */
typedef struct usual_tower {
    const char *type, *class;
    int64_t hidden, intermediate, layers, heads, vocabulary;
} usual_tower;

static const usual_tower usual[] = {
    {"llama", "LlamaForCausalLM", 4096, 11008, 32, 32, 32000},
    {"mistral", "MistralForCausalLM", 4096, 14336, 32, 32, 32000},
    {"qwen2", "Qwen2ForCausalLM", 4096, 22016, 32, 32, 151936},
    {"qwen3", "Qwen3ForCausalLM", 4096, 22016, 32, 32, 151936},
    {"gemma", "GemmaForCausalLM", 3072, 24576, 28, 16, 256000},
    {"gemma2", "Gemma2ForCausalLM", 2304, 9216, 26, 8, 256000},
    {"gemma3_text", "Gemma3ForCausalLM", 2304, 9216, 26, 8, 262208},
    {"cohere2", "Cohere2ForCausalLM", 8192, 22528, 40, 64, 256000},
};

static grail_status put_missing(json_t *config, const char *key, json_t *value)
{
    if (json_object_get(config, key) != NULL) {
        json_decref(value);
        return GRAIL_OK;
    }
    return json_put(config, key, value);
}

/* What stands beside "text_config" and is about the language model as well. */
static const char *const shared_keys[] = {
    "tie_word_embeddings", "dtype",        "torch_dtype",         "bos_token_id",
    "eos_token_id",        "pad_token_id", "quantization_config", "transformers_version"};

grail_status text_tower_config(const json_t *config, json_t **out)
{
    grail_status status = GRAIL_OK;
    json_t *copy = NULL;
    const json_t *text = json_object_get(config, "text_config");
    const architecture *a = architecture_named(json_object_get(text, "model_type"));
    *out = NULL;
    if (architecture_named(json_object_get(config, "model_type")) != NULL || a == NULL ||
        a->family == NULL) {
        return GRAIL_OK;
    }
    copy = json_deep_copy(text);
    if (copy == NULL) {
        return error_set(GRAIL_ERROR_MEMORY, "out of memory while reading \"text_config\"");
    }
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        const usual_tower *u = &usual[i];
        if (strcmp(u->type, a->name) == 0) {
            TRY(put_missing(copy, "hidden_size", json_integer(u->hidden)));
            TRY(put_missing(copy, "intermediate_size", json_integer(u->intermediate)));
            TRY(put_missing(copy, "num_hidden_layers", json_integer(u->layers)));
            TRY(put_missing(copy, "num_attention_heads", json_integer(u->heads)));
            TRY(put_missing(copy, "vocab_size", json_integer(u->vocabulary)));
            TRY(json_put(copy, "architectures", json_pack("[s]", u->class)));
        }
    }
    for (size_t i = 0; i < sizeof shared_keys / sizeof shared_keys[0]; i++) {
        json_t *value = json_object_get(config, shared_keys[i]);
        if (value != NULL) {
            TRY(put_missing(copy, shared_keys[i], json_deep_copy(value)));
        }
    }
    *out = copy;
    copy = NULL;
out:
    json_decref(copy);
    return status;
}

grail_status text_tower_tie(const architecture *a, const checkpoint *weights, json_t *config)
{
    if (a->family->encoder) {
        return GRAIL_OK;
    }
    const decoder_place head = decoder_head_place(a->family);
    for (int64_t i = 0; i < checkpoint_count(weights); i++) {
        if (name_ends_with(checkpoint_plain_name(weights, i), head.tensor)) {
            return GRAIL_OK;
        }
    }
    return json_put(config, "tie_word_embeddings", json_true());
}

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
