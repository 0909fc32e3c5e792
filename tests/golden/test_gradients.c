/* The way back through golden networks of every family against torch: for each tensor of the
 * checkpoint the norm of its gradient and one projection. make_gradient_golden.py made the
 * references and says what they are. */
#include "unit/arch/lab_network.h"
#include "vision_golden.h"

#include "exec/tape.h"
#include "format/weights/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_SIZE = 1024, NAME_SIZE = 128, MOST_TENSORS = 128 };

/* Differences as a share of the norm of the tensor's gradient, which counts as at least `least` of
 * the largest norm: the bias of keys has none. */
static const double reference_tolerance = 1e-6;
static const double tolerance = 1e-4;
static const double least = 0.01;

/* -- references -------------------------------------------------------------------------------- */

typedef struct golden_gradient {
    char tensor[NAME_SIZE];
    double norm, projection;
} golden_gradient;

typedef struct golden_gradients {
    golden_gradient list[MOST_TENSORS];
    int count;
    double largest; /* norm */
} golden_gradients;

static void read_references(const char *name, golden_gradients *out)
{
    char path[PATH_SIZE];
    golden_gradient line = {0};
    snprintf(path, sizeof path, "%s/tests/golden/gradients/%s.txt", GRAIL_SOURCE_DIR, name);
    *out = (golden_gradients){0};
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fscanf(file, "%127s %lf %lf", line.tensor, &line.norm, &line.projection) == 3) {
        assert_true(out->count < MOST_TENSORS);
        out->list[out->count++] = line;
        out->largest = fmax(out->largest, line.norm);
    }
    assert_true(feof(file));
    assert_true(out->count > 0);
    fclose(file);
}

/* References have the names of the checkpoint, or those without what wrappers add. */
static bool is_of(const grail_model *m, int p, const char *tensor)
{
    return strcmp(m->graph->parameters[p].tensor, tensor) == 0 ||
           strcmp(m->tensors[p]->name, tensor) == 0;
}

static bool has_reference(const golden_gradients *expected, const grail_model *m, int p)
{
    for (int i = 0; i < expected->count; i++) {
        if (is_of(m, p, expected->list[i].tensor)) {
            return true;
        }
    }
    return false;
}

/* -- gradients --------------------------------------------------------------------------------- */

/* A model and one batch of its input. */
typedef struct lesson {
    const grail_model *model;
    batch_shape shape;
    batch_input input;
} lesson;

/* Tables of embeddings alone and statistics of batch norms have no gradients. */
static bool has_gradient(const graph *g, int parameter)
{
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        if (n->bias == parameter || (n->weight == parameter && n->kind != NODE_EMBEDDING)) {
            return true;
        }
    }
    return false;
}

/* The references name all tensors that have gradients, and no others. */
static void want_all(const grail_model *m, const golden_gradients *expected, gradient_store *wanted,
                     parameter_store *store)
{
    for (int p = 0; p < m->graph->parameter_count; p++) {
        const char *tensor = m->graph->parameters[p].tensor;
        const bool has = has_gradient(m->graph, p);
        if (has != has_reference(expected, m, p)) {
            fail_msg("'%s' has %s gradient in torch", tensor, has ? "no" : "a");
        }
        if (has) {
            assert_ok(gradient_store_want(wanted, store, p));
        }
    }
}

/* Gives the gradient of sum over i of out[i] cos(0.9 i + 0.1). */
static void seed_output(tape *t, int output)
{
    const matrix y = execution_value(tape_execution(t), output);
    OWNED(matrix) seed = {0};
    host_view v = {0};
    assert_ok(matrix_new(y.owner, y.type, y.rows, y.columns, &seed));
    assert_ok(host_view_open(seed, GRAIL_DTYPE_F64, HOST_WRITES, &v));
    for (int64_t i = 0; i < matrix_count(y); i++) {
        ((double *)v.values)[i] = cos(0.9 * (double)i + 0.1);
    }
    assert_ok(host_view_close(&v));
    assert_ok(tape_seed(t, output, seed));
}

static void run_both_ways(const lesson *l, backend *b, parameter_store *store,
                          gradient_store *gradients)
{
    const graph *g = l->model->graph;
    tape *t = NULL;
    OPENED(matrix_pool, pool, matrix_pool_create(b, &pool));
    assert_ok(tape_create(g, b, pool, &t));
    assert_ok(execution_begin(tape_execution(t), l->shape, l->input));
    assert_ok(tape_forward(t, store, gradients, false, 0, g->node_count));
    seed_output(t, g->output);
    assert_ok(tape_backward(t, store, gradients));
    tape_free(t);
}

/* -- comparison -------------------------------------------------------------------------------- */

/* Adds what parameter `p` is of its tensor, which may hold several. */
static void measure_part(const grail_model *m, int p, matrix gradient, double *squares,
                         double *projection)
{
    const stored_matrix place = graph_stored(&m->graph->parameters[p]);
    const double scale = place.map.scale == 0.0 ? 1.0 : place.map.scale;
    host_view v = {0};
    assert_true(matrix_exists(gradient));
    assert_ok(host_view_open(gradient, GRAIL_DTYPE_F64, HOST_READS, &v));
    for (int64_t i = 0; i < matrix_count(gradient); i++) {
        const double value = scale * ((const double *)v.values)[i];
        const double at = (double)storage_element(&place, m->tensors[p], i);
        *squares += value * value;
        *projection += value * cos(0.7 * at + 0.3);
    }
    assert_ok(host_view_close(&v));
}

static void compare_tensor(const grail_model *m, const gradient_store *gradients,
                           const golden_gradient *expected, double largest, double share)
{
    double squares = 0.0;
    double projection = 0.0;
    const double size = fmax(expected->norm, least * largest);
    for (int p = 0; p < m->graph->parameter_count; p++) {
        if (is_of(m, p, expected->tensor)) {
            measure_part(m, p, gradient_of(gradients, p), &squares, &projection);
        }
    }
    const double of_norm = fabs(sqrt(squares) - expected->norm) / size;
    const double of_projection = fabs(projection - expected->projection) / size;
    if (!(of_norm <= share && of_projection <= share)) {
        fail_msg("%s: norm %.9g instead of %.9g, projection %.9g instead of %.9g", expected->tensor,
                 sqrt(squares), expected->norm, projection, expected->projection);
    }
}

static void compare_on(const char *name, const lesson *l, const golden_gradients *expected,
                       double share)
{
    parameter_store *store = NULL;
    gradient_store *gradients = NULL;
    OPENED(backend, b, backend_open(name, NULL, &b));
    assert_ok(parameter_store_create(l->model, b, NULL, &store));
    assert_ok(gradient_store_create(l->model->graph, b, &gradients));
    want_all(l->model, expected, gradients, store);
    run_both_ways(l, b, store, gradients);
    for (int i = 0; i < expected->count; i++) {
        compare_tensor(l->model, gradients, &expected->list[i], expected->largest, share);
    }
    gradient_store_free(gradients);
    parameter_store_free(store);
    assert_int_equal(backend_bytes(b), 0);
}

static void compare(const char *name, const lesson *l)
{
    static golden_gradients expected;
    read_references(name, &expected);
    compare_on("ref", l, &expected, reference_tolerance);
    compare_on("cpu", l, &expected, tolerance);
    if (getenv("GRAIL_TORCH") != NULL) {
        compare_on("torch:cpu", l, &expected, tolerance);
    }
}

/* -- networks ---------------------------------------------------------------------------------- */

/* All sequences of the golden file at once. */
static void assert_decoder(const char *name)
{
    char path[PATH_SIZE];
    tensor_file *golden = NULL;
    grail_model *m = NULL;
    int32_t *ids = NULL;
    snprintf(path, sizeof path, "%s/tests/golden/models/%s/golden.safetensors", GRAIL_SOURCE_DIR,
             name);
    assert_ok(safetensors_open(path, &golden));
    const tensor_view *view = tensor_file_find(golden, "ids");
    assert_non_null(view);
    assert_int_equal(view->dtype, GRAIL_DTYPE_I64);
    const int64_t count = view->shape[0] * view->shape[1];
    assert_ok(memory_new(&ids, (size_t)count, sizeof ids[0]));
    for (int64_t i = 0; i < count; i++) {
        int64_t id = 0;
        memcpy(&id, (const unsigned char *)view->data + (size_t)i * sizeof id, sizeof id);
        ids[i] = (int32_t)id;
    }
    snprintf(path, sizeof path, "%s/tests/golden/models/%s", GRAIL_SOURCE_DIR, name);
    assert_ok(grail_model_open(path, &m));
    const lesson l = {
        .model = m, .shape = sequence_batch(view->shape[0], view->shape[1]), .input = {.ids = ids}};
    compare(name, &l);
    grail_model_close(m);
    memory_free(ids);
    tensor_file_close(golden);
}

/* pixels[images, height, width, 3] */
static void assert_images(const char *name, const char *path, const char *settings,
                          const tensor_view *pixels)
{
    grail_model *m = NULL;
    float *values = NULL;
    assert_non_null(pixels);
    assert_ok(memory_new(&values, pixels->bytes / sizeof values[0], sizeof values[0]));
    memcpy(values, pixels->data, pixels->bytes); /* aligned */
    assert_ok(open_with_settings(path, settings, &m));
    const lesson l = {
        .model = m,
        .shape = {.samples = pixels->shape[0],
                  .positions = {.height = pixels->shape[1], .width = pixels->shape[2]}},
        .input = {.pixels = values}};
    compare(name, &l);
    grail_model_close(m);
    memory_free(values);
}

/* The checkpoint is `file` in the network's directory; "" is the directory itself. */
static void assert_tower(const char *name, const char *file, const char *settings)
{
    char path[PATH_SIZE];
    OWNED(tensor_file) *golden = NULL;
    snprintf(path, sizeof path, "%s/tests/golden/vision/%s/golden.safetensors", GRAIL_SOURCE_DIR,
             name);
    assert_ok(safetensors_open(path, &golden));
    snprintf(path, sizeof path, "%s/tests/golden/vision/%s%s%s", GRAIL_SOURCE_DIR, name,
             file[0] == 0 ? "" : "/", file);
    assert_images(name, path, settings, tensor_file_find(golden, "pixels"));
}

static void assert_resnet(const char *name, const lab_resnet *r, int64_t side)
{
    static lab_network n;
    OWNED(float) *values = NULL;
    OWNED(temporary) directory = support_temporary_directory();
    lab_network_init(&n, r);
    lab_network_write(&n, directory, true);
    const tensor_view pixels = lab_pixels(3, side, &values);
    assert_images(name, directory, "", &pixels);
}

#define DECODERS(X)                                                                                \
    X(llama3, "llama3")                                                                            \
    X(llama3_in_bf16, "llama3-bf16")                                                               \
    X(llama3_in_shards, "llama3-sharded")                                                          \
    X(llama_without_groups_tied_with_biases_in_f16, "llama-mha")                                   \
    X(llama_with_one_key_value_head, "llama-mqa")                                                  \
    X(mistral_with_a_window, "mistral")                                                            \
    X(qwen2, "qwen2")                                                                              \
    X(qwen3, "qwen3")                                                                              \
    X(gemma, "gemma")                                                                              \
    X(phi3, "phi3")                                                                                \
    X(gpt2, "gpt2")                                                                                \
    X(gemma2, "gemma2")                                                                            \
    X(gemma3, "gemma3")                                                                            \
    X(granite, "granite")                                                                          \
    X(smollm3, "smollm3")                                                                          \
    X(starcoder2, "starcoder2")                                                                    \
    X(stablelm, "stablelm")                                                                        \
    X(opt, "opt")                                                                                  \
    X(gpt_neox, "gpt-neox")                                                                        \
    X(phi, "phi")                                                                                  \
    X(glm, "glm")                                                                                  \
    X(glm4, "glm4")                                                                                \
    X(cohere2, "cohere2")                                                                          \
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
    X(deepseek_v2, "deepseek-v2")                                                                  \
    X(deepseek_v3, "deepseek-v3")                                                                  \
    X(deepseek_v3_without_groups, "deepseek-v3-free")                                              \
    X(bert, "bert")                                                                                \
    X(roberta, "roberta")                                                                          \
    X(distilbert, "distilbert")

#define TOWERS(X)                                                                                  \
    X(vit_of_timm, "timm-vit", "", "head_dim=16")                                                  \
    X(vit_of_timm_with_a_norm_before_and_no_query_bias, "timm-vit-hub", "", "")                    \
    X(vit_of_torchvision, "torchvision-vit", "", "head_dim=16")                                    \
    X(vit_of_hugging_face, "hf-vit", "", "")                                                       \
    X(simple_vit, "simple-vit", "", "")                                                            \
    X(simple_vit_in_a_torch_file, "simple-vit-pth", "model.pth", "")                               \
    X(open_clip_tower, "open-clip", "", "head_dim=16")                                             \
    X(open_clip_tower_told_quick_gelu, "open-clip-quickgelu", "",                                  \
      "head_dim=16 activation=quick_gelu")                                                         \
    X(clip_model_of_hugging_face, "hf-clip", "", "")                                               \
    X(clip_vision_model_of_hugging_face, "hf-clip-vision", "", "")                                 \
    X(model_soup_with_features_of_unit_length, "model-soup", "", "head_dim=16")

#define RESNETS(X)                                                                                 \
    X(network_of_narrowed_bottlenecks, "narrowed_resnet50", lab_narrowed_resnet50(), 71)           \
    X(network_with_padding_shortcuts, "akamaster_resnet14", lab_akamaster(2), 32)                  \
    X(pre_activation_network, "pre_activation_resnet18", lab_pre_activation(16), 32)

#define DECODER_TEST(symbol, directory)                                                            \
    TEST(symbol##_gives_the_reference_gradients)                                                   \
    {                                                                                              \
        assert_decoder(directory);                                                                 \
    }
DECODERS(DECODER_TEST)

#define TOWER_TEST(symbol, directory, file, settings)                                              \
    TEST(symbol##_gives_the_reference_gradients)                                                   \
    {                                                                                              \
        assert_tower(directory, file, settings);                                                   \
    }
TOWERS(TOWER_TEST)

#define RESNET_TEST(symbol, name, resnet, side)                                                    \
    TEST(symbol##_gives_the_reference_gradients)                                                   \
    {                                                                                              \
        const lab_resnet r = resnet;                                                               \
        assert_resnet(name, &r, side);                                                             \
    }
RESNETS(RESNET_TEST)
