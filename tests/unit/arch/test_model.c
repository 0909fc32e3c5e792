/* Opening a model directory: the tensors must be those that config.json describes. */
#include "unit/pipeline/lab_model.h"

#include "arch/model.h"
#include "format/weights/safetensors.h"
#include "support/json_memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A golden model in memory, and a directory to store what the test makes of it. */
typedef struct fixture {
    lab_model m;
    char *directory;
    char path[LAB_PATH];
} fixture;

static void setup(fixture *f, const char *golden)
{
    lab_read(&f->m, lab_golden(golden));
    f->directory = support_temporary_directory();
    snprintf(f->path, sizeof f->path, "%s/model", f->directory);
}

static void teardown(fixture *f)
{
    lab_fini(&f->m);
    support_remove_tree(f->directory);
    memory_free(f->directory);
}

OWNS(fixture, teardown)

static grail_status try_open(const char *path)
{
    OWNED(grail_model) *m = NULL;
    const grail_status status = grail_model_open(path, &m);
    assert_true((status == GRAIL_OK) == (m != NULL));
    return status;
}

static void assert_refused(fixture *f, grail_status code, const char *text)
{
    lab_write(&f->m, f->path, GRAIL_DTYPE_F32);
    assert_fails(try_open(f->path), code, text);
}

TEST(facts_are_counted_from_the_tensors)
{
    grail_model_facts facts;
    OPENED(grail_model, m, grail_model_open(lab_golden("llama3"), &m));
    assert_ok(grail_model_describe(m, &facts));
    assert_string_equal(facts.architecture, "llama");
    assert_string_equal(facts.dtype, "F32");
    assert_int_equal(facts.blocks, 2);
    assert_int_equal(facts.vocabulary, 96);
    assert_int_equal(facts.context, 256);
    /* q and o 64 x 64, k and v 32 x 64, three of 80 x 64, two norms; embedding, norm, head */
    const int64_t linear = 2 * 64 * 64 + 2 * 32 * 64 + 3 * 80 * 64;
    assert_int_equal(facts.parameters, 2 * (linear + 2 * 64) + 2 * 96 * 64 + 64);
    assert_int_equal(facts.bytes, 4 * facts.parameters);
    assert_int_equal(facts.macs_per_token, 2 * linear + 96 * 64);
    assert_int_equal(facts.kv_bytes_per_token, 2 * (32 + 32) * 4);
}

TEST(sites_are_listed_with_their_facts)
{
    grail_site_list *sites = NULL;
    OPENED(grail_model, m, grail_model_open(lab_golden("llama3"), &m));
    assert_ok(grail_model_sites(m, GRAIL_GQA_KV_GROUPS, &sites));
    assert_int_equal(grail_site_list_count(sites), 4);
    grail_site_facts s = grail_site_list_at(sites, 2);
    assert_string_equal(s.name, "model.layers.1.self_attn.o_proj");
    assert_string_equal(s.kind, "heads");
    assert_int_equal(s.block, 1);
    assert_int_equal(s.units, 4);
    assert_int_equal(s.features_per_unit, 16);
    assert_int_equal(s.width, 64);
    assert_int_equal(s.groups, 1);
    assert_int_equal(s.outputs, 64);
    assert_int_equal(s.parameters_per_unit, (16 + 8 + 8) * 64 + 16 * 64);
    s = grail_site_list_at(sites, 3);
    assert_string_equal(s.name, "model.layers.1.mlp.down_proj");
    assert_string_equal(s.kind, "ffn");
    assert_int_equal(s.parameters_per_unit, 3 * 64);
    grail_site_list_free(sites);
    assert_ok(grail_model_sites(m, GRAIL_GQA_QUERY_PER_GROUP, &sites));
    s = grail_site_list_at(sites, 0);
    assert_int_equal(s.units, 8);
    assert_int_equal(s.groups, 4);
    assert_int_equal(s.features_per_unit, 8);
    grail_site_list_free(sites);
}

TEST(known_architectures_are_listed)
{
    static const char *const names[] = {"llama",
                                        "mistral",
                                        "qwen2",
                                        "qwen3",
                                        "gemma",
                                        "gemma2",
                                        "gemma3_text",
                                        "phi",
                                        "phi3",
                                        "smollm3",
                                        "granite",
                                        "starcoder2",
                                        "stablelm",
                                        "glm",
                                        "glm4",
                                        "cohere",
                                        "cohere2",
                                        "olmo",
                                        "olmo2",
                                        "olmo3",
                                        "falcon",
                                        "exaone4",
                                        "nemotron",
                                        "mixtral",
                                        "qwen2_moe",
                                        "qwen3_moe",
                                        "olmoe",
                                        "granitemoe",
                                        "gpt_oss",
                                        "deepseek_v2",
                                        "deepseek_v3",
                                        "gpt2",
                                        "gpt_neox",
                                        "opt",
                                        "bert",
                                        "roberta",
                                        "xlm-roberta",
                                        "distilbert",
                                        "modernbert",
                                        "resnet",
                                        "vit",
                                        "clip",
                                        "clip_vision_model",
                                        "onnx"};
    enum { COUNT = sizeof names / sizeof names[0] };
    for (int i = 0; i < COUNT; i++) {
        assert_string_equal(grail_architecture_at(i), names[i]);
    }
    assert_null(grail_architecture_at(COUNT));
    assert_null(grail_architecture_at(-1));
}

TEST(a_missing_tensor_is_named)
{
    OWNED(fixture) f;
    setup(&f, "llama3");
    snprintf(lab_find(&f.m, 1, "mlp.up_proj.weight")->name, 96, "%s", "model.layers.1.other");
    assert_refused(
        &f, GRAIL_ERROR_FORMAT,
        "tensor 'model.layers.1.mlp.up_proj.weight' is missing, but config.json needs it");
}

TEST(a_network_without_its_head_is_told_by_its_class)
{
    OWNED(fixture) f;
    setup(&f, "llama3");
    snprintf(lab_find(&f.m, 1, "mlp.up_proj.weight")->name, 96, "%s",
             "layers.1.mlp.up_proj.weight");
    json_t *names = json_pack("[s]", "LlamaForSequenceClassification");
    assert_int_equal(json_object_set_new(f.m.config, "architectures", names), 0);
    assert_refused(
        &f, GRAIL_ERROR_FORMAT,
        "saved by the class LlamaForSequenceClassification, which has another last "
        "layer than grail reads, or none: save it by its class that ends in ForCausalLM");
}

TEST(a_tensor_of_another_shape_is_named_with_both)
{
    OWNED(fixture) f;
    setup(&f, "llama3");
    lab_set_integer(&f.m, "intermediate_size", 76);
    assert_refused(&f, GRAIL_ERROR_SHAPE,
                   "tensor 'model.layers.0.mlp.gate_proj.weight' has shape [80, 64], but "
                   "config.json needs shape [76, 64]");
}

TEST(a_tensor_that_the_network_does_not_read_is_refused)
{
    OWNED(fixture) f;
    setup(&f, "llama-mha");
    assert_int_equal(json_object_set_new(f.m.config, "attention_bias", json_false()), 0);
    assert_refused(&f, GRAIL_ERROR_UNSUPPORTED,
                   "bias' is not part of the llama network that config.json describes");
}

static void add_tensor(lab_model *m, const char *name, int64_t rows, int64_t columns)
{
    lab_tensor *t = &m->tensors[m->count++];
    *t = (lab_tensor){.rank = 2, .shape = {rows, columns}};
    snprintf(t->name, sizeof t->name, "%s", name);
    assert_ok(memory_new(&t->values, (size_t)(rows * columns), sizeof t->values[0]));
}

static grail_model *write_and_open(fixture *f)
{
    grail_model *m = NULL;
    support_remove_tree(f->path);
    lab_write(&f->m, f->path, GRAIL_DTYPE_F32);
    assert_ok(grail_model_open(f->path, &m));
    return m;
}

static bool has_notice(const grail_model *m, const char *text)
{
    grail_model_facts facts;
    assert_ok(grail_model_describe(m, &facts));
    for (int i = 0; i < facts.notice_count; i++) {
        if (strstr(facts.notices[i], text) != NULL) {
            return true;
        }
    }
    return false;
}

static lab_tensor *tensor_of(lab_model *m, const char *name)
{
    for (int i = 0; i < m->count; i++) {
        if (strcmp(m->tensors[i].name, name) == 0) {
            return &m->tensors[i];
        }
    }
    fail_msg("no tensor %s", name);
    return NULL;
}

/* Equal bytes are a copy, which nothing reads; others are the head, whatever the configuration
 * says, also in shape. */
TEST(a_head_beside_tied_embeddings_is_read_where_it_differs)
{
    static const char said[] = "tensor 'lm_head.weight' differs from 'model.embed_tokens.weight'";
    OWNED(fixture) f;
    setup(&f, "qwen2");
    const lab_tensor *table = tensor_of(&f.m, "model.embed_tokens.weight");
    add_tensor(&f.m, "lm_head.weight", 96, 64);
    lab_tensor *head = tensor_of(&f.m, "lm_head.weight");
    memcpy(head->values, table->values, (size_t)lab_elements(table) * sizeof table->values[0]);
    add_tensor(&f.m, "model.layers.0.self_attn.rotary_emb.inv_freq", 1, 4);
    grail_model *m = write_and_open(&f);
    assert_false(has_notice(m, said));
    assert_int_equal(graph_find_parameter(m->graph, "lm_head.weight"), GRAPH_NONE);
    assert_int_equal(m->outside_bytes, 4 * (96 * 64 + 4));
    grail_model_close(m);
    head->values[96 * 64 - 1] += 1.0F;
    m = write_and_open(&f);
    assert_true(has_notice(m, said));
    assert_true(graph_find_parameter(m->graph, "lm_head.weight") != GRAPH_NONE);
    assert_true(json_is_false(json_object_get(m->config, "tie_word_embeddings")));
    assert_int_equal(m->outside_bytes, 4 * 4);
    grail_model_close(m);
    support_remove_tree(f.path);
    head->shape[0] = 95;
    assert_refused(&f, GRAIL_ERROR_SHAPE, "tensor 'lm_head.weight' has shape [95, 64]");
}

TEST(a_layer_beyond_the_number_is_refused_by_its_number)
{
    OWNED(fixture) f;
    setup(&f, "llama3");
    lab_set_integer(&f.m, "num_hidden_layers", 1);
    assert_refused(
        &f, GRAIL_ERROR_UNSUPPORTED,
        "is of layer 1, but the last one that config.json describes is layer 0; correct the "
        "number of layers there, or take the tensors of further layers out");
}

/* Names of DeepSeek-V3, and of qwen3_next. A layer without the parts of such a one is another. */
TEST(layers_that_predict_further_tokens_are_left_out)
{
    OWNED(fixture) f;
    setup(&f, "llama3");
    lab_set_integer(&f.m, "num_nextn_predict_layers", 1);
    add_tensor(&f.m, "model.layers.2.eh_proj.weight", 64, 128);
    add_tensor(&f.m, "model.layers.2.self_attn.q_proj.weight", 64, 64);
    add_tensor(&f.m, "mtp.fc.weight", 64, 128);
    grail_model *m = write_and_open(&f);
    assert_true(
        has_notice(m, "and 2 more (layers that predict further tokens); results lack them"));
    assert_int_equal(m->outside_bytes, 0);
    assert_true(m->left_out[checkpoint_index_of(m->checkpoint, "mtp.fc.weight")]);
    assert_false(m->left_out[checkpoint_index_of(m->checkpoint, "model.norm.weight")]);
    assert_ok(m->architecture->describe_narrowed(m->architecture, m->graph, m->config));
    assert_int_equal(json_integer_value(json_object_get(m->config, "num_nextn_predict_layers")), 0);
    grail_model_close(m);
    support_remove_tree(f.path);
    snprintf(tensor_of(&f.m, "model.layers.2.eh_proj.weight")->name, sizeof f.m.tensors[0].name,
             "model.layers.2.mlp.up_proj.weight");
    assert_refused(&f, GRAIL_ERROR_UNSUPPORTED, "is of layer 2, but the last one");
}

TEST(a_head_of_values_is_named_and_copied)
{
    OWNED(fixture) f;
    setup(&f, "llama3");
    add_tensor(&f.m, "v_head.summary.weight", 1, 64);
    OWNED(grail_model) *m = write_and_open(&f);
    assert_true(has_notice(m, "not read: tensor 'v_head.summary.weight' (a head beside that of the "
                              "language model); results have them as they are"));
    assert_int_equal(m->outside_parameters, 64);
}

/* Every tensor as F32 but the first, which is of `dtype`; all zeros. */
static void write_odd_dtype(const fixture *f, grail_dtype dtype)
{
    tensor_view views[LAB_TENSORS] = {0};
    OWNED(tensor_writer) *writer = NULL;
    char path[LAB_PATH + 32];
    for (int i = 0; i < f->m.count; i++) {
        const lab_tensor *t = &f->m.tensors[i];
        views[i] = (tensor_view){.name = t->name,
                                 .dtype = i == 0 ? dtype : GRAIL_DTYPE_F32,
                                 .rank = t->rank,
                                 .shape = {t->shape[0], t->shape[1]}};
    }
    lab_write(&f->m, f->path, GRAIL_DTYPE_F32);
    snprintf(path, sizeof path, "%s/model.safetensors", f->path);
    assert_int_equal(remove(path), 0);
    assert_ok(safetensors_writer_open(path, f->m.count, views, LAYOUT_NEW, &writer));
    assert_ok(tensor_writer_seal(writer));
}

TEST(a_quantised_tensor_is_refused)
{
    static const grail_dtype dtypes[] = {GRAIL_DTYPE_I8, GRAIL_DTYPE_F8_E4M3, GRAIL_DTYPE_C64};
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        OWNED(fixture) f;
        char text[80];
        setup(&f, "llama3");
        write_odd_dtype(&f, dtypes[i]);
        snprintf(text, sizeof text, "has dtype %s; the supported dtypes are F64, F32, F16 and BF16",
                 grail_dtype_name(dtypes[i]));
        assert_fails(try_open(f.path), GRAIL_ERROR_UNSUPPORTED, text);
        const bool is_complex = dtypes[i] == GRAIL_DTYPE_C64;
        assert_true(is_complex == (strstr(grail_error_message(), "complex") != NULL));
        assert_true(is_complex == (strstr(grail_error_message(), "quantised") == NULL));
    }
}

TEST(a_folder_of_the_hubs_cache_names_its_snapshot)
{
    OWNED(fixture) f;
    char path[1024];
    char expected[1100];
    setup(&f, "llama3");
    snprintf(path, sizeof path, "%s/snapshots", f.directory);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_fails(try_open(f.directory), GRAIL_ERROR_IO, "holds neither model.safetensors");
    snprintf(path, sizeof path, "%s/snapshots/abc", f.directory);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(expected, sizeof expected, "give its snapshot '%s'", path);
    assert_fails(try_open(f.directory), GRAIL_ERROR_ARGUMENT, expected);
}

TEST(a_weight_that_is_not_a_number_is_named_when_it_is_read)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        OWNED(fixture) f;
        OWNED(grail_model) *m = NULL;
        float values[80 * 64];
        setup(&f, "llama3");
        lab_find(&f.m, 0, "mlp.up_proj.weight")->values[77] = bad[i];
        lab_write(&f.m, f.path, GRAIL_DTYPE_BF16);
        assert_ok(grail_model_open(f.path, &m));
        const int index = graph_find_parameter(m->graph, "model.layers.0.mlp.up_proj.weight");
        assert_int_equal(model_parameter_elements(m, index), 80 * 64);
        assert_fails(model_parameter_f32(m, index, values), GRAIL_ERROR_NUMERIC,
                     "tensor 'model.layers.0.mlp.up_proj.weight' holds a NaN or infinity at "
                     "element 77; the checkpoint is damaged");
    }
}

TEST(what_is_not_a_model_directory_is_named)
{
    OWNED(fixture) f;
    setup(&f, "llama3");
    assert_fails(try_open(f.path), GRAIL_ERROR_IO, "neither a model directory nor a weights file");
    assert_fails(try_open("nobody/Model-1b"), GRAIL_ERROR_IO,
                 "'hf download nobody/Model-1b --local-dir Model-1b' fetches");
    assert_fails(try_open("a/b/c"), GRAIL_ERROR_IO, "nor a weights file");
    assert_null(strstr(grail_error_message(), "hf download"));
    assert_fails(try_open(f.directory), GRAIL_ERROR_IO, "holds neither model.safetensors");
    support_write_file(f.directory, "config.json", "[]", 2);
    assert_fails(try_open(f.directory), GRAIL_ERROR_FORMAT, "config.json: not a JSON object");
    support_write_file(f.directory, "config.json", "{", 1);
    assert_fails(try_open(f.directory), GRAIL_ERROR_FORMAT, "config.json: not valid JSON");
}

static grail_status open_once(void *path)
{
    return try_open(path);
}

TEST(every_failing_allocation_of_opening_is_survived)
{
    char path[LAB_PATH];
    snprintf(path, sizeof path, "%s", lab_golden("llama3-sharded"));
    support_fail_each_allocation(open_once, path);
}

static grail_status list_sites(void *model)
{
    OWNED(grail_site_list) *sites = NULL;
    grail_model_facts facts;
    CHECK(grail_model_describe(model, &facts));
    return grail_model_sites(model, GRAIL_GQA_KV_GROUPS, &sites);
}

TEST(every_failing_allocation_of_listing_sites_is_survived)
{
    OPENED(grail_model, m, grail_model_open(lab_golden("qwen3"), &m));
    support_fail_each_allocation(list_sites, m);
}

CMFixtureFunction support_setup = json_memory_use;
