/* The forward pass against Hugging Face transformers: logits of tiny decoders of every family, and
 * of real weights where they are at hand, and the last hidden states of tiny encoders.
 * make_logits_golden.py and make_encoder_golden.py made the references. */
#include "support/support.h"

#include "eval/forward.h"

#include <math.h>
#include <string.h>

enum { PATH_SIZE = 1024 };

static const double tolerance = 1e-4; /* of a logit or a feature, absolute */

/* "ids" I64 [count, length] of a golden file as windows. */
static void read_golden_ids(const tensor_file *golden, token_windows *out)
{
    const tensor_view *ids = tensor_file_find(golden, "ids");
    assert_non_null(ids);
    assert_int_equal(ids->dtype, GRAIL_DTYPE_I64);
    *out = (token_windows){.count = ids->shape[0], .length = ids->shape[1]};
    assert_ok(memory_new(&out->ids, (size_t)(out->count * out->length), sizeof out->ids[0]));
    for (int64_t i = 0; i < out->count * out->length; i++) {
        int64_t id = 0;
        memcpy(&id, (const unsigned char *)ids->data + (size_t)i * sizeof id, sizeof id);
        out->ids[i] = (int32_t)id;
    }
}

/* Rows are taken in slices of an uneven number, as callers may. */
static double compare_window(forward_pass *f, int64_t window, int64_t width,
                             const unsigned char *expected)
{
    enum { SLICE = 17 };
    const int64_t length = f->windows->length;
    double worst = 0.0;
    OWNED(float) *found = NULL;
    assert_ok(memory_new(&found, (size_t)(SLICE * width), sizeof found[0]));
    for (int64_t from = 0; from < length; from += SLICE) {
        const int64_t rows = length - from < SLICE ? length - from : SLICE;
        matrix logits = {0};
        assert_ok(forward_logits(f, window, from, rows, &logits));
        assert_ok(matrix_download_f32(logits, found));
        for (int64_t i = 0; i < rows * width; i++) {
            float wanted = 0.0F;
            memcpy(&wanted, expected + (size_t)(from * width + i) * sizeof wanted, sizeof wanted);
            const double difference = fabs((double)wanted - (double)found[i]);
            worst = difference <= worst ? worst : difference; /* NaN counts */
        }
    }
    return worst;
}

static double compare_backend(const grail_model *model, const char *name,
                              const token_windows *windows, const tensor_view *logits)
{
    parameter_store *store = NULL;
    forward_pass f = {0};
    double worst = 0.0;
    OPENED(backend, b, backend_open(name, NULL, &b));
    assert_ok(parameter_store_create(model, b, NULL, &store));
    assert_ok(forward_begin(&f, model, store, windows, 0, windows->count));
    const size_t window_bytes = logits->bytes / (size_t)windows->count;
    for (int64_t w = 0; w < windows->count; w++) {
        const unsigned char *expected = (const unsigned char *)logits->data;
        worst = fmax(worst,
                     compare_window(&f, w, logits->shape[2], expected + (size_t)w * window_bytes));
    }
    forward_end(&f);
    parameter_store_free(store);
    assert_int_equal(backend_bytes(b), 0);
    return worst;
}

/* Logits, or the hidden states of encoders. */
static const tensor_view *find_outputs(const tensor_file *golden)
{
    const tensor_view *logits = tensor_file_find(golden, "logits");
    return logits != NULL ? logits : tensor_file_find(golden, "hidden");
}

static void assert_golden(const char *directory, const char *golden_path)
{
    OWNED(token_windows) windows = {0};
    OPENED(tensor_file, golden, safetensors_open(golden_path, &golden));
    read_golden_ids(golden, &windows);
    const tensor_view *logits = find_outputs(golden);
    assert_non_null(logits);
    assert_int_equal(logits->dtype, GRAIL_DTYPE_F32);
    OPENED(grail_model, model, grail_model_open(directory, &model));
    assert_int_equal(logits->shape[0], windows.count);
    assert_int_equal(logits->shape[1], windows.length);
    if (!graph_gives_features(model->graph)) {
        assert_int_equal(logits->shape[2], model->graph->vocabulary);
    }
    assert_near(compare_backend(model, "cpu", &windows, logits), 0.0, tolerance);
    assert_near(compare_backend(model, "ref", &windows, logits), 0.0, tolerance);
}

static void assert_golden_model(const char *name)
{
    char directory[PATH_SIZE];
    char golden[PATH_SIZE];
    snprintf(directory, sizeof directory, "%s/tests/golden/models/%s", GRAIL_SOURCE_DIR, name);
    snprintf(golden, sizeof golden, "%s/tests/golden/models/%s/golden.safetensors",
             GRAIL_SOURCE_DIR, name);
    assert_golden(directory, golden);
}

#define GOLDEN_MODELS(X)                                                                           \
    X(llama3, "llama3")                                                                            \
    X(llama3_in_bf16, "llama3-bf16")                                                               \
    X(llama3_in_shards, "llama3-sharded")                                                          \
    X(llama_without_groups_tied_with_biases_in_f16, "llama-mha")                                   \
    X(llama_with_one_key_value_head, "llama-mqa")                                                  \
    X(mistral_with_a_window, "mistral")                                                            \
    X(qwen2, "qwen2")                                                                              \
    X(qwen3, "qwen3")                                                                              \
    X(gemma, "gemma")                                                                              \
    X(phi3_with_long_texts, "phi3")                                                                \
    X(phi3_with_short_texts, "phi3-short")                                                         \
    X(gpt2, "gpt2")                                                                                \
    X(llama_yarn, "llama-yarn")                                                                    \
    X(gemma2, "gemma2")                                                                            \
    X(gemma3, "gemma3")                                                                            \
    X(granite, "granite")                                                                          \
    X(smollm3, "smollm3")                                                                          \
    X(starcoder2, "starcoder2")                                                                    \
    X(stablelm, "stablelm")                                                                        \
    X(stablelm_parallel, "stablelm-parallel")                                                      \
    X(opt, "opt")                                                                                  \
    X(gpt_neox, "gpt-neox")                                                                        \
    X(phi, "phi")                                                                                  \
    X(glm, "glm")                                                                                  \
    X(glm4, "glm4")                                                                                \
    X(cohere, "cohere")                                                                            \
    X(cohere2, "cohere2")                                                                          \
    X(olmo, "olmo")                                                                                \
    X(olmo2, "olmo2")                                                                              \
    X(olmo3, "olmo3")                                                                              \
    X(falcon, "falcon")                                                                            \
    X(exaone4, "exaone4")                                                                          \
    X(exaone4_without_windows, "exaone4-windowless")                                               \
    X(nemotron, "nemotron")                                                                        \
    X(mixtral, "mixtral")                                                                          \
    X(qwen2_moe, "qwen2-moe")                                                                      \
    X(qwen3_moe, "qwen3-moe")                                                                      \
    X(olmoe, "olmoe")                                                                              \
    X(granitemoe, "granitemoe")                                                                    \
    X(gpt_oss, "gpt-oss")                                                                          \
    X(gpt_oss_in_mxfp4, "gpt-oss-mxfp4")                                                           \
    X(deepseek_v2, "deepseek-v2")                                                                  \
    X(deepseek_v3, "deepseek-v3")                                                                  \
    X(deepseek_v3_without_groups, "deepseek-v3-free")                                              \
    X(bert, "bert")                                                                                \
    X(masked_bert_with_old_names, "bert-masked")                                                   \
    X(roberta, "roberta")                                                                          \
    X(xlm_roberta, "xlm-roberta")                                                                  \
    X(distilbert, "distilbert")                                                                    \
    X(modernbert, "modernbert")                                                                    \
    X(masked_modernbert, "modernbert-masked")

#define GOLDEN_TEST(symbol, directory)                                                             \
    TEST(symbol##_gives_the_reference_outputs)                                                     \
    {                                                                                              \
        assert_golden_model(directory);                                                            \
    }
GOLDEN_MODELS(GOLDEN_TEST)

static void assert_golden_gguf(const char *name)
{
    char path[PATH_SIZE];
    char golden[PATH_SIZE];
    snprintf(path, sizeof path, "%s/tests/golden/gguf/%s.gguf", GRAIL_SOURCE_DIR, name);
    snprintf(golden, sizeof golden, "%s/tests/golden/models/%s/golden.safetensors",
             GRAIL_SOURCE_DIR, name);
    assert_golden(path, golden);
}

/* make_gguf_golden.py made the files. */
TEST(gguf_files_give_the_reference_logits)
{
    assert_golden_gguf("llama3");
    assert_golden_gguf("llama-mha");
    assert_golden_gguf("qwen2");
    assert_golden_gguf("qwen3");
}

TEST(real_weights_give_the_reference_logits)
{
    char golden[PATH_SIZE];
    const char *directory = support_shared_data("stories260k");
    if (directory == NULL) {
        print_message("skipped: real_weights_give_the_reference_logits\n");
        skip();
    }
    snprintf(golden, sizeof golden, "%s/tests/golden/models/stories260k.golden.safetensors",
             GRAIL_SOURCE_DIR);
    assert_golden(directory, golden);
}
