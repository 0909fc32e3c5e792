/* Which type each matrix has in a GGUF file. What is expected was seen in llama.cpp's own files
 * (tests/loaders/check_gguf_types.py), those of a llama of 12 layers with widths of 256 and 512. */
#include "config.h"

#include "arch/gguf_mixture.h"

#include <stdio.h>
#include <string.h>

enum { LAYERS = 12 };

static graph *network_with(const char *hidden, const char *ffn, const char *others)
{
    char changes[256];
    snprintf(changes, sizeof changes,
             "\"num_hidden_layers\": %d, \"intermediate_size\": %s, \"hidden_size\": %s%s", LAYERS,
             ffn, hidden, others);
    return built("llama", changes);
}

static graph *network_of(const char *hidden, const char *others)
{
    return network_with(hidden, "512", others);
}

static void choose(const graph *g, const char *type, const char *table, grail_dtype *dtypes,
                   int *others)
{
    const grail_gguf_options options = {.type = type, .table_type = table};
    gguf_mixture m;
    assert_ok(gguf_mixture_read(&options, GRAIL_DTYPE_F16, &m));
    assert_ok(gguf_mixture_choose(&m, g, dtypes, others));
}

static grail_dtype of(const graph *g, const grail_dtype *dtypes, const char *name)
{
    return dtypes[graph_find_parameter(g, name)];
}

TEST(the_head_has_more_bits)
{
    static const struct {
        const char *type;
        grail_dtype matrices, head;
    } expected[] = {
        {NULL, GRAIL_DTYPE_F16, GRAIL_DTYPE_F16},     {"f32", GRAIL_DTYPE_F32, GRAIL_DTYPE_F32},
        {"q8_0", GRAIL_DTYPE_Q8_0, GRAIL_DTYPE_Q8_0}, {"q6_k", GRAIL_DTYPE_Q6_K, GRAIL_DTYPE_Q6_K},
        {"q5_0", GRAIL_DTYPE_Q5_0, GRAIL_DTYPE_Q6_K}, {"q4_0", GRAIL_DTYPE_Q4_0, GRAIL_DTYPE_Q6_K},
        {"q4_k", GRAIL_DTYPE_Q4_K, GRAIL_DTYPE_Q6_K},
    };
    grail_dtype dtypes[256];
    int others = 0;
    OWNED(graph) *tied = network_of("256", ", \"tie_word_embeddings\": true");
    OWNED(graph) *own = network_of("256", ", \"tie_word_embeddings\": false");
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        choose(tied, expected[i].type, NULL, dtypes, &others);
        assert_int_equal(of(tied, dtypes, "model.embed_tokens.weight"), expected[i].head);
        assert_int_equal(of(tied, dtypes, "model.layers.3.mlp.up_proj.weight"),
                         expected[i].matrices);
        assert_int_equal(of(tied, dtypes, "model.norm.weight"), GRAIL_DTYPE_F32);
        choose(own, expected[i].type, NULL, dtypes, &others);
        assert_int_equal(of(own, dtypes, "model.embed_tokens.weight"), expected[i].matrices);
        assert_int_equal(of(own, dtypes, "lm_head.weight"), expected[i].head);
        assert_int_equal(others, 0);
    }
    assert_int_equal(gguf_head(own), graph_find_parameter(own, "lm_head.weight"));
}

TEST(some_layers_have_more_bits)
{
    static const bool more[LAYERS] = {true, false, false, true, false, false,
                                      true, false, false, true, true,  true};
    grail_dtype dtypes[256];
    int others = 0;
    OWNED(graph) *g = network_of("256", "");
    choose(g, "q4_k", NULL, dtypes, &others);
    for (int layer = 0; layer < LAYERS; layer++) {
        static const char *const parts[] = {"self_attn.v_proj", "mlp.down_proj", "mlp.gate_proj"};
        for (int i = 0; i < 3; i++) {
            char name[64];
            snprintf(name, sizeof name, "model.layers.%d.%s.weight", layer, parts[i]);
            assert_int_equal(of(g, dtypes, name),
                             more[layer] && i < 2 ? GRAIL_DTYPE_Q6_K : GRAIL_DTYPE_Q4_K);
        }
    }
}

TEST(rows_that_do_not_fill_blocks_have_others)
{
    grail_dtype dtypes[256];
    int others = 0;
    OWNED(graph) *g = network_of("288", ", \"tie_word_embeddings\": false");
    choose(g, "q4_k", NULL, dtypes, &others);
    assert_int_equal(of(g, dtypes, "lm_head.weight"), GRAIL_DTYPE_Q8_0);
    assert_int_equal(of(g, dtypes, "model.embed_tokens.weight"), GRAIL_DTYPE_Q5_0);
    assert_int_equal(of(g, dtypes, "model.layers.0.self_attn.v_proj.weight"), GRAIL_DTYPE_Q8_0);
    assert_int_equal(of(g, dtypes, "model.layers.1.self_attn.v_proj.weight"), GRAIL_DTYPE_Q5_0);
    assert_int_equal(of(g, dtypes, "model.layers.1.mlp.down_proj.weight"), GRAIL_DTYPE_Q4_K);
    assert_int_equal(others, LAYERS * 6 + 1);
}

TEST(the_table_takes_what_is_asked_for)
{
    grail_dtype dtypes[256];
    int others = 0;
    gguf_mixture m = {.type = GRAIL_DTYPE_Q4_0, .table = GRAIL_DTYPE_Q6_K};
    OWNED(graph) *g = network_of("288", ", \"tie_word_embeddings\": false");
    choose(g, "q4_k", "q5_0", dtypes, &others);
    assert_int_equal(of(g, dtypes, "model.embed_tokens.weight"), GRAIL_DTYPE_Q5_0);
    assert_int_equal(of(g, dtypes, "lm_head.weight"), GRAIL_DTYPE_Q5_0);
    assert_fails(gguf_mixture_choose(&m, g, dtypes, &others), GRAIL_ERROR_SHAPE,
                 "rows of 'model.embed_tokens.weight' have 288 weights, which blocks of Q6_K, of "
                 "256, do not fill; choose q8_0");
    assert_fails(
        gguf_mixture_read(&(grail_gguf_options){.table_type = "w4a16"}, GRAIL_DTYPE_F16, &m),
        GRAIL_ERROR_ARGUMENT, "w4a16");
}

/* What is said of a type where the first network is cut to the second. */
static grail_status judge(graph *dense, graph *g, const char *type, char *text)
{
    grail_dtype dtypes[256];
    int others = 0;
    gguf_mixture m;
    assert_ok(gguf_mixture_read(&(grail_gguf_options){.type = type}, GRAIL_DTYPE_F16, &m));
    assert_ok(gguf_mixture_choose(&m, g, dtypes, &others));
    const grail_status status = gguf_mixture_judge(&m, dense, g, dtypes, text);
    assert_true(status != GRAIL_OK || (others > 0) == (text[0] != 0));
    graph_free(dense);
    graph_free(g);
    return status;
}

static graph *narrow(const char *hidden, const char *ffn)
{
    return network_with(hidden, ffn, "");
}

TEST(what_falls_short_is_said)
{
    char text[GGUF_SHORTFALL_SIZE];
    assert_ok(judge(narrow("256", "512"), narrow("256", "512"), "q4_k", text));
    assert_string_equal(text, "");
    assert_ok(judge(narrow("256", "500"), narrow("256", "500"), "f16", text));
    assert_string_equal(text, "");
    assert_ok(judge(narrow("256", "512"), narrow("256", "300"), "q4_0", text));
    assert_string_equal(text, "73 of 85 matrices are Q4_0, 12 F16, since 300 is no multiple of 32; "
                              "align widths to 32");
    assert_ok(judge(narrow("256", "300"), narrow("256", "300"), "q4_0", text));
    assert_string_equal(text, "73 of 85 matrices are Q4_0, 12 F16, since 300 is no multiple of 32");
}

TEST(a_type_that_no_matrix_has_is_refused)
{
    char text[GGUF_SHORTFALL_SIZE];
    assert_fails(
        judge(narrow("288", "480"), narrow("288", "288"), "q4_k", text), GRAIL_ERROR_SHAPE,
        "Q4_K would hold no matrix: 288 is no multiple of 256; use q5_0, or align widths to 256");
    assert_fails(judge(narrow("288", "480"), narrow("288", "480"), "q6_k", text), GRAIL_ERROR_SHAPE,
                 "Q6_K would hold no matrix: 288 and 480 are no multiples of 256; use q8_0");
    assert_string_equal(grail_error_message(),
                        "Q6_K would hold no matrix: 288 and 480 are no multiples of "
                        "256; use q8_0"); /* an alignment makes no dense width */
    assert_fails(judge(narrow("72", "100"), narrow("72", "100"), "q4_0", text), GRAIL_ERROR_SHAPE,
                 "are no multiples of 32; use f16 (grail export)");
}
