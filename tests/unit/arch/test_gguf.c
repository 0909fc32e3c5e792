/* Decoders in GGUF files: what the keys say, where rows lie, tokenizers, and every refusal.
 * tests/golden/test_logits.c runs files of another program. */
#include "support/support.h"

#include "arch/gguf_family.h"
#include "arch/gguf_tokenizer.h"
#include "arch/model.h"
#include "support/json_memory.h"

#include <stdio.h>
#include <string.h>

enum { HIDDEN = 32, LAYERS = 2, HEADS = 4, GROUPS = 2, WIDTH = 16, INNER = 32, WORDS = 8 };

/* A small network, and what one test changes of it. */
typedef struct changes {
    const char *architecture, *left_out; /* a key that is missing */
    const char *key;                     /* an integer in place of the usual one, or a new one */
    int64_t value;
    int64_t inner[LAYERS], heads[LAYERS]; /* as arrays, where they are not 0 */
    bool without_head, with_divisors;
} changes;

static void put_integer(const changes *c, gguf_pairs *pairs, const char *name, int64_t value)
{
    char key[GGUF_KEY_SIZE];
    snprintf(key, sizeof key, "%s.%s", c->architecture, name);
    if (c->left_out == NULL || strcmp(c->left_out, name) != 0) {
        const bool own = c->key != NULL && strcmp(c->key, name) == 0;
        assert_ok(gguf_put_integer(pairs, key, GGUF_U32, own ? c->value : value));
    }
}

static void put_widths(const changes *c, gguf_pairs *pairs, const char *name, const int64_t own[],
                       int64_t usual)
{
    char key[GGUF_KEY_SIZE];
    if (own[0] == 0) {
        put_integer(c, pairs, name, usual);
        return;
    }
    snprintf(key, sizeof key, "%s.%s", c->architecture, name);
    assert_ok(gguf_put_array(pairs, key, GGUF_I32, LAYERS));
    for (int layer = 0; layer < LAYERS; layer++) {
        assert_ok(gguf_append_integer(pairs, GGUF_I32, own[layer]));
    }
}

static void put_keys(const changes *c, gguf_pairs *pairs)
{
    static const char *const added[] = {
        "expert_count",        "rope.dimension_count", "attention.sliding_window",
        "rope.scaling.factor", "logit_scale",          "attention.scale",
        "rope.scale_linear",   "something_new",        "final_logit_softcapping"};
    gguf_pairs_init(pairs);
    assert_ok(gguf_put_text(pairs, "general.architecture", c->architecture));
    put_integer(c, pairs, "block_count", LAYERS);
    put_integer(c, pairs, "embedding_length", HIDDEN);
    put_integer(c, pairs, "context_length", 64);
    put_integer(c, pairs, "attention.layer_norm_rms_epsilon", 1);
    put_integer(c, pairs, "attention.key_length", WIDTH);
    put_integer(c, pairs, "attention.head_count_kv", GROUPS);
    put_widths(c, pairs, "feed_forward_length", c->inner, INNER);
    put_widths(c, pairs, "attention.head_count", c->heads, HEADS);
    put_integer(c, pairs, "attention.value_length", WIDTH);
    for (size_t i = 0; i < sizeof added / sizeof added[0]; i++) {
        if (c->key != NULL && strcmp(c->key, added[i]) == 0) {
            put_integer(c, pairs, added[i], 0);
        }
    }
}

typedef struct tensor_list {
    tensor_view views[32];
    char names[32][64];
    int64_t count;
} tensor_list;

static void add(tensor_list *list, grail_dtype dtype, int64_t rows, int64_t columns,
                const char *format, int layer)
{
    char *name = list->names[list->count];
    const int rank = rows == 0 ? 1 : 2;
    snprintf(name, sizeof list->names[0], "%s%d.%s", layer < 0 ? "" : "blk.", layer, format);
    tensor_view *view = &list->views[list->count++];
    *view = (tensor_view){.name = layer < 0 ? format : name, .dtype = dtype, .rank = rank};
    view->shape[0] = rank == 1 ? columns : rows;
    view->shape[1] = columns;
}

static void list_tensors(const changes *c, tensor_list *list)
{
    const grail_dtype blocks = GRAIL_DTYPE_Q8_0;
    *list = (tensor_list){.count = 0};
    add(list, blocks, WORDS, HIDDEN, "token_embd.weight", -1);
    add(list, GRAIL_DTYPE_F32, 0, HIDDEN, "output_norm.weight", -1);
    if (!c->without_head) {
        add(list, blocks, WORDS, HIDDEN, "output.weight", -1);
    }
    if (c->with_divisors) {
        add(list, GRAIL_DTYPE_F32, 0, WIDTH / 2, "rope_freqs.weight", -1);
    }
    for (int layer = 0; layer < LAYERS; layer++) {
        const int64_t inner = c->inner[0] == 0 ? INNER : c->inner[layer];
        const int64_t heads = c->heads[0] == 0 ? HEADS : c->heads[layer];
        add(list, GRAIL_DTYPE_F32, 0, HIDDEN, "attn_norm.weight", layer);
        add(list, GRAIL_DTYPE_F32, 0, HIDDEN, "ffn_norm.weight", layer);
        add(list, blocks, heads * WIDTH, HIDDEN, "attn_q.weight", layer);
        add(list, blocks, GROUPS * WIDTH, HIDDEN, "attn_k.weight", layer);
        add(list, blocks, GROUPS * WIDTH, HIDDEN, "attn_v.weight", layer);
        add(list, blocks, HIDDEN, heads * WIDTH, "attn_output.weight", layer);
        add(list, blocks, inner, HIDDEN, "ffn_gate.weight", layer);
        add(list, blocks, inner, HIDDEN, "ffn_up.weight", layer);
        add(list, blocks, HIDDEN, inner, "ffn_down.weight", layer);
    }
}

/* All numbers are finite: scales of 2^-10 and small integers; the divisors are 2. */
static void put_data(tensor_writer *writer, const tensor_view *view)
{
    int64_t elements = 0;
    size_t bytes = 0;
    unsigned char *data = NULL;
    assert_true(shape_elements(view->rank, view->shape, &elements));
    assert_true(dtype_bytes(view->dtype, elements, &bytes));
    assert_ok(memory_new(&data, bytes, 1));
    for (size_t i = 0; i < bytes && view->dtype == GRAIL_DTYPE_Q8_0; i++) {
        data[i] = i % 34 == 0 ? 0 : i % 34 == 1 ? 0x14 : (unsigned char)(i * 7 % 251);
    }
    for (size_t i = 0; i < bytes && view->dtype == GRAIL_DTYPE_F32; i += 4) {
        data[i + 3] = 0x40;
    }
    assert_ok(tensor_writer_put(writer, view->name, data, bytes));
    memory_free(data);
}

static void write_network(const char *path, const changes *given)
{
    tensor_list list;
    gguf_pairs pairs;
    tensor_writer *writer = NULL;
    changes c = *given;
    c.architecture = c.architecture == NULL ? "llama" : c.architecture;
    (void)remove(path);
    list_tensors(&c, &list);
    put_keys(&c, &pairs);
    assert_ok(gguf_writer_open(path, &pairs, list.count, list.views, LAYOUT_NEW, &writer));
    for (int64_t i = 0; i < list.count; i++) {
        put_data(writer, &list.views[i]);
    }
    assert_ok(tensor_writer_seal(writer));
    tensor_writer_close(writer);
    gguf_pairs_fini(&pairs);
}

static grail_status open_network(const char *directory, const changes *c, grail_model **out)
{
    OPENED(char, path, path_join(&path, directory, "m.gguf"));
    write_network(path, c);
    return grail_model_open(path, out);
}

DIRECTORY_TEST(keys_and_tensors_make_the_network)
{
    OPENED(grail_model, m, open_network(directory, &(changes){.without_head = true}, &m));
    assert_string_equal(m->architecture->name, "llama");
    assert_int_equal(m->graph->block_count, LAYERS);
    assert_int_equal(m->graph->vocabulary, WORDS);
    assert_int_equal(m->context, 64);
    assert_string_equal(grail_dtype_name(model_usual_dtype(m)), "Q8_0");
    assert_true(graph_find_parameter(m->graph, "lm_head.weight") == GRAPH_NONE);
}

/* Row h WIDTH + s WIDTH / 2 + k of the network is row h WIDTH + 2 k + s of the file. */
DIRECTORY_TEST(rows_of_q_lie_in_pairs)
{
    static float values[HEADS * WIDTH * HIDDEN];
    static float stored[HEADS * WIDTH * HIDDEN];
    OPENED(grail_model, m, open_network(directory, &(changes){0}, &m));
    const int q = graph_find_parameter(m->graph, "model.layers.1.self_attn.q_proj.weight");
    const tensor_view *tensor = checkpoint_find(m->checkpoint, "blk.1.attn_q.weight");
    assert_ptr_equal(m->tensors[q], tensor);
    assert_ok(convert_to_f32(tensor->dtype, tensor->data, HEADS * WIDTH * HIDDEN, stored));
    assert_ok(model_parameter_f32(m, q, values));
    for (int h = 0; h < HEADS; h++) {
        for (int i = 0; i < WIDTH; i++) {
            const int row = h * WIDTH + 2 * (i % (WIDTH / 2)) + i / (WIDTH / 2);
            assert_memory_equal(&values[(h * WIDTH + i) * HIDDEN], &stored[row * HIDDEN],
                                HIDDEN * sizeof values[0]);
        }
    }
}

DIRECTORY_TEST(layers_may_differ)
{
    const changes c = {.architecture = "deci", .inner = {32, 64}, .heads = {4, 2}};
    OPENED(grail_model, m, open_network(directory, &c, &m));
    const int down = graph_find_parameter(m->graph, "model.layers.1.mlp.down_proj.weight");
    const int q = graph_find_parameter(m->graph, "model.layers.1.self_attn.q_proj.weight");
    assert_int_equal(m->graph->parameters[down].shape[1], 64);
    assert_int_equal(m->graph->parameters[q].shape[0], 2 * WIDTH);
}

static double first_frequency(const grail_model *m)
{
    for (int n = 0; n < m->graph->node_count; n++) {
        if (m->graph->nodes[n].kind == NODE_ROPE) {
            return m->graph->nodes[n].rope.frequency[0];
        }
    }
    return 0.0;
}

DIRECTORY_TEST(a_table_divides_the_frequencies)
{
    OPENED(grail_model, m, open_network(directory, &(changes){.with_divisors = true}, &m));
    assert_near(first_frequency(m), 0.5, 0.0);
}

/* The frequency is 1, theta^0, with a factor of 2 or 0, which is none. */
DIRECTORY_TEST(a_factor_without_a_type_is_linear)
{
    static const char *const keys[] = {"rope.scaling.factor", "rope.scale_linear"};
    for (int i = 0; i < 4; i++) {
        const changes c = {.key = keys[i / 2], .value = i % 2 == 0 ? 2 : 0};
        OPENED(grail_model, m, open_network(directory, &c, &m));
        assert_near(first_frequency(m), i % 2 == 0 ? 0.5 : 1.0, 0.0);
    }
}

/* tests/golden/make_gguf_keys.py lists them. Only what belongs to no network may be unknown. */
TEST(every_listed_key_has_a_line)
{
    char key[GGUF_KEY_SIZE];
    int count = 0;
    FILE *file = fopen(GRAIL_SOURCE_DIR "/tests/golden/gguf/keys.txt", "r");
    assert_non_null(file);
    while (fgets(key, sizeof key, file) != NULL) {
        key[strcspn(key, "\n")] = 0;
        const gguf_key *found = gguf_key_find("llama", key);
        const bool is_unknown = strcmp(found->name, ".*") == 0 || strcmp(found->name, "*") == 0 ||
                                strcmp(found->name, "tokenizer.ggml.*") == 0;
        if (is_unknown) {
            fail_msg("src/arch/gguf_key_list.h has no line for %s", key);
        }
        count++;
    }
    assert_true(count > 150);
    (void)fclose(file);
}

typedef struct refusal {
    changes changes;
    grail_status status;
    const char *text;
} refusal;

static const refusal refusals[] = {
    {{.architecture = "mamba"}, GRAIL_ERROR_UNSUPPORTED, "unknown general.architecture \"mamba\""},
    {{.left_out = "block_count"}, GRAIL_ERROR_FORMAT, "m.gguf: lacks the key 'llama.block_count'"},
    {{.left_out = "embedding_length"}, GRAIL_ERROR_FORMAT, "'llama.embedding_length'"},
    {{.left_out = "context_length"}, GRAIL_ERROR_FORMAT, "'llama.context_length'"},
    {{.key = "block_count", .value = 0}, GRAIL_ERROR_FORMAT, "is 0, expected 1 to 1024"},
    {{.key = "block_count", .value = 2000}, GRAIL_ERROR_FORMAT, "is 2000, expected 1 to 1024"},
    {{.key = "block_count", .value = 3}, GRAIL_ERROR_FORMAT, "'blk.2.attn_norm.weight' is missing"},
    {{.key = "block_count", .value = 1},
     GRAIL_ERROR_UNSUPPORTED,
     "is of layer 1, but the last one that the file's metadata describes is layer 0"},
    {{.key = "block_count", .value = 3, .heads = {4, 4}},
     GRAIL_ERROR_FORMAT,
     "key 'llama.attention.head_count' has 2 elements for 3 layers"},
    {{.key = "feed_forward_length", .value = 64},
     GRAIL_ERROR_SHAPE,
     "the file's metadata needs shape"},
    {{.key = "attention.head_count_kv", .value = 3}, GRAIL_ERROR_FORMAT, "not divisible by 3"},
    {{.key = "attention.value_length", .value = 8}, GRAIL_ERROR_UNSUPPORTED, "8 of values"},
    {{.key = "rope.dimension_count", .value = 8}, GRAIL_ERROR_UNSUPPORTED, "8 of rotary positions"},
    {{.key = "expert_count", .value = 8},
     GRAIL_ERROR_UNSUPPORTED,
     "key 'llama.expert_count' is 8 (mixtures of experts), which grail does not carry; expected 0"},
    {{.key = "attention.sliding_window", .value = 8},
     GRAIL_ERROR_UNSUPPORTED,
     "key 'llama.attention.sliding_window' is 8"},
    {{.key = "logit_scale", .value = 2}, GRAIL_ERROR_UNSUPPORTED, "expected 0 or 1"},
    {{.key = "attention.scale", .value = 1}, GRAIL_ERROR_UNSUPPORTED, "a factor of scores"},
    {{.key = "final_logit_softcapping", .value = 30},
     GRAIL_ERROR_UNSUPPORTED,
     "soft cap of logits"},
    {{.key = "something_new", .value = 0},
     GRAIL_ERROR_UNSUPPORTED,
     "'llama.something_new' is 0 (keys of the architecture that grail does not know)"},
    {{.left_out = "attention.layer_norm_rms_epsilon"},
     GRAIL_ERROR_FORMAT,
     "lacks the key 'llama.attention.layer_norm_rms_epsilon'"},
    {{.left_out = "feed_forward_length"}, GRAIL_ERROR_FORMAT, "'llama.feed_forward_length'"},
    {{.left_out = "attention.head_count"}, GRAIL_ERROR_FORMAT, "'llama.attention.head_count'"},
};

static void names_a_remedy(void)
{
    static const char *const remedies[] = {
        "convert the network again", "the directory that the file was made from", "remove it",
        "take the tensors of further layers out", "pass the ids"};
    bool found = false;
    for (size_t i = 0; i < sizeof remedies / sizeof remedies[0]; i++) {
        found = found || strstr(grail_error_message(), remedies[i]) != NULL;
    }
    if (!found) {
        fail_msg("no remedy: %s", grail_error_message());
    }
}

DIRECTORY_TEST(what_cannot_be_read_is_refused)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        grail_model *m = NULL;
        assert_fails(open_network(directory, &refusals[i].changes, &m), refusals[i].status,
                     refusals[i].text);
        names_a_remedy();
    }
}

DIRECTORY_TEST(quantised_weights_need_a_type_to_be_written)
{
    grail_model *m = NULL;
    assert_ok(open_network(directory, &(changes){0}, &m));
    assert_fails(model_check_written(m), GRAIL_ERROR_ARGUMENT,
                 "tensor 'token_embd.weight' is quantised (Q8_0); choose the type that weights of "
                 "the result have");
    assert_string_equal(grail_error_fields(), "type");
    grail_model_close(m);
    OPENED(char, path, path_join(&path, directory, "m.gguf"));
    grail_model_options options = {.type = "f16"};
    assert_ok(grail_model_open_with(path, &options, &m));
    assert_ok(model_check_written(m));
    assert_int_equal(model_written_dtype(m, checkpoint_find(m->checkpoint, "output.weight")),
                     GRAIL_DTYPE_F16);
    assert_int_equal(model_written_dtype(m, checkpoint_find(m->checkpoint, "output_norm.weight")),
                     GRAIL_DTYPE_F32);
    grail_model_close(m);
    options.type = "q4_k";
    assert_fails(grail_model_open_with(path, &options, &m), GRAIL_ERROR_ARGUMENT, "f32, f16, bf16");
}

static grail_status open_once(void *path)
{
    OWNED(grail_model) *m = NULL;
    return grail_model_open(path, &m);
}

DIRECTORY_TEST(every_failing_allocation_is_survived)
{
    OPENED(char, path, path_join(&path, directory, "m.gguf"));
    write_network(path, &(changes){.architecture = "deci", .inner = {32, 64}});
    support_fail_each_allocation(open_once, path);
}

/* -- tokenizers -------------------------------------------------------------------------------- */

typedef struct words {
    const char *kind, *pre;
    const char *const *texts;
    const int *types;
    const float *scores;
    int count;
    const char *merges[4];
} words;

static grail_status open_words(const char *directory, const words *w, tokenizer **out)
{
    gguf_pairs pairs;
    tensor_writer *writer = NULL;
    OPENED(char, path, path_join(&path, directory, "t.gguf"));
    (void)remove(path);
    gguf_pairs_init(&pairs);
    assert_ok(gguf_put_text(&pairs, "tokenizer.ggml.model", w->kind));
    assert_ok(gguf_put_text(&pairs, "tokenizer.ggml.pre", w->pre));
    assert_ok(gguf_put_array(&pairs, "tokenizer.ggml.tokens", GGUF_TEXT, (uint64_t)w->count));
    for (int i = 0; i < w->count; i++) {
        assert_ok(gguf_append_text(&pairs, w->texts[i], strlen(w->texts[i])));
    }
    assert_ok(gguf_put_array(&pairs, "tokenizer.ggml.token_type", GGUF_I32, (uint64_t)w->count));
    for (int i = 0; i < w->count; i++) {
        assert_ok(gguf_append_integer(&pairs, GGUF_I32, w->types[i]));
    }
    if (w->scores != NULL) {
        assert_ok(gguf_put_array(&pairs, "tokenizer.ggml.scores", GGUF_F32, (uint64_t)w->count));
        for (int i = 0; i < w->count; i++) {
            assert_ok(gguf_append_real(&pairs, (double)w->scores[i]));
        }
    }
    assert_ok(gguf_put_array(&pairs, "tokenizer.ggml.merges", GGUF_TEXT, 4));
    for (int i = 0; i < 4; i++) {
        assert_ok(gguf_append_text(&pairs, w->merges[i] == NULL ? "" : w->merges[i],
                                   w->merges[i] == NULL ? 0 : strlen(w->merges[i])));
    }
    assert_ok(gguf_writer_open(path, &pairs, 0, NULL, LAYOUT_NEW, &writer));
    assert_ok(tensor_writer_seal(writer));
    tensor_writer_close(writer);
    gguf_pairs_fini(&pairs);
    OPENED(checkpoint, c, checkpoint_open(path, &c));
    return gguf_tokenizer_open(c, out);
}

static void assert_ids(const tokenizer *t, const char *text, const int32_t expected[], int count)
{
    OWNED(token_list) list = {0};
    assert_ok(tokenizer_encode(t, text, strlen(text), true, &list));
    assert_int_equal(list.count, count);
    assert_memory_equal(list.ids, expected, (size_t)count * sizeof expected[0]);
}

static const char *const bytes_texts[] = {"<s>",
                                          "a",
                                          "b",
                                          "\xc4\xa0",
                                          "1",
                                          "2",
                                          "ab",
                                          ("\xc4\xa0"
                                           "ab"),
                                          "12",
                                          "[PAD9]"};
static const int bytes_types[] = {3, 1, 1, 1, 1, 1, 1, 1, 1, 5};
static const words bytes_words = {.kind = "gpt2",
                                  .pre = "smollm",
                                  .texts = bytes_texts,
                                  .types = bytes_types,
                                  .count = 10,
                                  .merges = {"a b", "\xc4\xa0 ab", "1 2", "a b"}};

DIRECTORY_TEST(bytes_are_merged_as_the_name_says)
{
    tokenizer *t = NULL;
    words w = bytes_words;
    assert_ok(open_words(directory, &w, &t));
    assert_ids(t, "ab ab<s>12", (const int32_t[]){6, 7, 0, 4, 5}, 5); /* digits stand alone */
    tokenizer_close(t);
    w.pre = "gpt-2";
    assert_ok(open_words(directory, &w, &t));
    assert_ids(t, "12 ab", (const int32_t[]){8, 7}, 2);
    tokenizer_close(t);
}

DIRECTORY_TEST(pieces_are_merged_by_their_scores)
{
    static const char *const texts[] = {"<unk>",
                                        "<s>",
                                        "</s>",
                                        "\xe2\x96\x81",
                                        "a",
                                        "b",
                                        "ab",
                                        ("\xe2\x96\x81"
                                         "a")};
    static const int types[] = {2, 3, 3, 1, 1, 1, 1, 1};
    static const float scores[] = {0, 0, 0, -4, -5, -6, -1, -2};
    const words w = {.kind = "llama",
                     .pre = "default",
                     .texts = texts,
                     .types = types,
                     .scores = scores,
                     .count = 8};
    OPENED(tokenizer, t, open_words(directory, &w, &t));
    assert_ids(t, "ab", (const int32_t[]){1, 3, 6}, 3); /* BOS is usual */
}

DIRECTORY_TEST(other_tokenizers_are_refused)
{
    tokenizer *t = NULL;
    words w = bytes_words;
    w.pre = "tekken";
    assert_fails(open_words(directory, &w, &t), GRAIL_ERROR_UNSUPPORTED,
                 "its pre-tokenizer \"tekken\" is not supported");
    names_a_remedy();
    w.pre = "gpt-2";
    w.kind = "bert";
    assert_fails(open_words(directory, &w, &t), GRAIL_ERROR_UNSUPPORTED, "its tokenizer \"bert\"");
    names_a_remedy();
    w.kind = "llama";
    assert_fails(open_words(directory, &w, &t), GRAIL_ERROR_FORMAT,
                 "'tokenizer.ggml.scores' is missing");
    names_a_remedy();
    w.kind = "gpt2";
    w.merges[0] = "a c";
    assert_fails(open_words(directory, &w, &t), GRAIL_ERROR_FORMAT, "names the piece 'c'");
    names_a_remedy();
}

CMFixtureFunction support_setup = json_memory_use;
