/* Where a network lies among the tensors of a checkpoint, and what may lie beside it. */
#include "network_fixture.h"

#include "arch/text_tower.h"
#include "support/json_memory.h"
#include "unit/pipeline/lab_model.h"

#include <stdio.h>
#include <string.h>

static grail_model_facts facts_of(const grail_model *m)
{
    grail_model_facts facts;
    assert_ok(grail_model_describe(m, &facts));
    return facts;
}

static void assert_notice(const grail_model *m, int i, const char *text)
{
    const grail_model_facts facts = facts_of(m);
    assert_true(i < facts.notice_count);
    assert_non_null(strstr(facts.notices[i], text));
}

TEST(a_residual_network_may_lie_behind_any_prefix)
{
    static const struct {
        const char *prefix, *named;
    } cases[] = {
        {"", NULL},
        {"module.", NULL},
        {"_orig_mod.module.", NULL},
        {"_fsdp_wrapped_module._checkpoint_wrapped_module.", NULL},
        {"net.", "begin with 'net.'"},
        {"module.model._orig_mod.", "begin with 'model.'"},
        {"0.", "begin with '0.'"},
        {"layer1.0.", "begin with 'layer1.0.'"},
        {"a.b.backbone.", "begin with 'a.b.backbone.'"},
    };
    const lab_resnet r = lab_akamaster(1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        OWNED(network_fixture) *f = network_setup(&r);
        lab_network_put_behind(&f->n, 0, cases[i].prefix);
        OWNED(grail_model) *m = network_open(f);
        assert_int_equal(facts_of(m).notice_count, cases[i].named != NULL);
        if (cases[i].named != NULL) {
            assert_notice(m, 0, cases[i].named);
        }
        assert_non_null(network_reader(m->graph, "layer2.0.conv1.weight"));
    }
}

TEST(wrappers_may_stand_inside_of_names)
{
    const lab_resnet r = lab_akamaster(1);
    OWNED(network_fixture) *f = network_setup(&r);
    for (int i = 0; i < f->n.count; i++) {
        char name[LAB_NETWORK_NAME];
        snprintf(name, sizeof name, "%s", f->n.tensors[i].name);
        const char *rest = strchr(name, '.') + 1;
        snprintf(f->n.tensors[i].name, LAB_NETWORK_NAME,
                 "_fsdp_wrapped_module.%.*s_fsdp_wrapped_module.%.60s", (int)(rest - name), name,
                 rest);
    }
    grail_model_close(network_open(f));
}

TEST(a_head_may_lie_outside_of_the_prefix)
{
    const lab_resnet r = lab_akamaster(1);
    OWNED(network_fixture) *f = network_setup(&r);
    lab_network_put_behind(&f->n, 0, "model.backbone.");
    snprintf(lab_network_find(&f->n, "model.backbone.linear.weight")->name, LAB_NETWORK_NAME,
             "model.linear.weight");
    snprintf(lab_network_find(&f->n, "model.backbone.linear.bias")->name, LAB_NETWORK_NAME,
             "model.linear.bias");
    grail_model_close(network_open(f));
    /* but a block may not: that would mix two networks */
    snprintf(lab_network_find(&f->n, "model.backbone.layer3.0.bn1.weight")->name, LAB_NETWORK_NAME,
             "layer3.0.bn1.weight");
    assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED, "its tensors fit no known family");
}

TEST(two_networks_are_both_named)
{
    static const char *const others[] = {"teacher.", "student.model.", ""};
    static const char *const texts[] = {"begin with 'student.', those of the other with 'teacher.'",
                                        "those of the other with 'student.model.'",
                                        "begin with 'student.', those of the other have no prefix"};
    const lab_resnet r = lab_akamaster(1);
    for (int i = 0; i < 3; i++) {
        OWNED(network_fixture) *f = network_setup(&r);
        lab_network other;
        lab_network_init(&other, &r);
        lab_network_put_behind(&f->n, 0, "student.");
        lab_network_put_behind(&other, 0, others[i]);
        for (int t = 0; t < other.count; t++) {
            f->n.tensors[f->n.count++] = other.tensors[t];
        }
        assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED, texts[i]);
    }
}

TEST(what_is_no_weight_is_left_alone_and_named)
{
    static const struct {
        const char *name;
        bool is_left_out;
        const char *text;
    } cases[] = {
        {"net.total_ops", true, "'net.total_ops' (counters of a profiler"},
        {"net.layer1.0.total_params", true, "results lack them"},
        {"net.bn1.aux_bn.0.weight", true, "norms of other splits of training batches"},
        {"n_averaged", false, "results have them as they are"},
        {"criterion.weight", false, "'criterion.weight' (weights of a loss)"},
        {"net.bn1.num_batches_tracked", false, "that are no integers"},
    };
    const lab_resnet r = lab_akamaster(1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        OWNED(network_fixture) *f = network_setup(&r);
        lab_network_remove(&f->n, "bn1.num_batches_tracked");
        lab_network_put_behind(&f->n, 0, "net.");
        lab_network_add(&f->n, cases[i].name, 1, (const int64_t[]){1});
        OWNED(grail_model) *m = network_open(f);
        const int64_t place = checkpoint_index_of(m->checkpoint, cases[i].name);
        assert_int_equal(facts_of(m).notice_count, 2);
        assert_notice(m, 0, cases[i].text);
        assert_int_equal(m->left_out[place], cases[i].is_left_out);
    }
}

TEST(what_may_be_a_weight_is_refused_with_its_reason)
{
    static const struct {
        const char *name, *text;
    } cases[] = {
        {"net.layer1.0.scale", "where that is a counter or a buffer, take it out of the file"},
        {"net.layer1.0.conv1.bias2.bias", "does it switch a bias off"},
        {"projector.weight", "whose tensors begin with 'net.'"},
        {"net.total_ops", "'net.total_ops' is not part of"}, /* of three elements: no counter */
    };
    const lab_resnet r = lab_akamaster(1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        OWNED(network_fixture) *f = network_setup(&r);
        lab_network_put_behind(&f->n, 0, "net.");
        lab_network_add(&f->n, cases[i].name, 1, (const int64_t[]){3});
        assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED, cases[i].text);
    }
}

/* Opens a golden decoder whose names begin with `begin` in place of "model.", and whose head's name
 * begins with `head`. */
static void assert_decoder(const char *begin, const char *head, const char *notice)
{
    char path[1024];
    OWNED(temporary) directory = support_temporary_directory();
    OWNED(lab_model) l;
    OWNED(grail_model) *m = NULL;
    lab_read(&l, lab_golden("llama3"));
    for (int i = 0; i < l.count; i++) {
        char name[sizeof l.tensors[i].name];
        snprintf(name, sizeof name, "%s", l.tensors[i].name);
        const bool inside = strncmp(name, "model.", 6) == 0;
        snprintf(l.tensors[i].name, sizeof name, "%s%.60s", inside ? begin : head,
                 inside ? name + 6 : name);
    }
    snprintf(path, sizeof path, "%s/m", directory);
    lab_write(&l, path, GRAIL_DTYPE_F32);
    assert_ok(grail_model_open(path, &m));
    assert_true(graph_find_parameter(m->graph, "model.layers.0.mlp.up_proj.weight") >= 0);
    assert_int_equal(facts_of(m).notice_count, notice != NULL);
    if (notice != NULL) {
        assert_notice(m, 0, notice);
    }
    assert_true(m->has_foreign_names == (notice != NULL));
    const size_t length = notice == NULL ? 0 : strlen(begin);
    for (int64_t i = 0; i < checkpoint_count(m->checkpoint); i++) {
        size_t own = 0;
        OPENED(char, name, model_result_name(m, i, &name, &own));
        assert_null(strstr(name, "wrapped"));
        assert_string_equal(name + own, checkpoint_own_name(m->checkpoint, i));
        assert_true(!checkpoint_is_inside(m->checkpoint, i) || strncmp(name, begin, length) == 0);
    }
}

TEST(a_decoder_may_lack_its_base_or_lie_in_another_network)
{
    assert_decoder("model.", "", NULL);
    assert_decoder("", "", NULL);
    assert_decoder("language_model.model.", "language_model.", "'language_model.model.'");
    assert_decoder("model.language_model.", "", "'model.language_model.'");
    assert_decoder("text_model.", "", "'text_model.'");
    assert_decoder("_fsdp_wrapped_module.model._fsdp_wrapped_module.", "_fsdp_wrapped_module.",
                   NULL);
}

typedef struct larger {
    const char *begin, *head; /* of the names of the language model, and of its head */
    const char *add;          /* name of another tensor */
    json_t *whole;            /* beside "text_config"; owned by `open_larger` */
    const char *type;         /* of "text_config" */
} larger;

/* A golden decoder inside of a larger network; the path lasts. */
static grail_status open_larger(const larger *of, grail_model **out)
{
    static char path[1024];
    OWNED(temporary) directory = support_temporary_directory();
    OWNED(lab_model) l;
    lab_read(&l, lab_golden("llama3"));
    for (int i = 0; i < l.count; i++) {
        char name[sizeof l.tensors[i].name];
        snprintf(name, sizeof name, "%s", l.tensors[i].name);
        const bool inside = strncmp(name, "model.", 6) == 0;
        snprintf(l.tensors[i].name, sizeof name, "%s%.60s", inside ? of->begin : of->head,
                 inside ? name + 6 : name);
    }
    lab_tensor *other = &l.tensors[l.count++];
    *other = l.tensors[0];
    assert_ok(memory_new(&other->values, (size_t)lab_elements(other), sizeof other->values[0]));
    snprintf(other->name, sizeof other->name, "%s", of->add);
    assert_int_equal(json_object_set_new(l.config, "model_type", json_string(of->type)), 0);
    assert_int_equal(json_object_set_new(of->whole, "text_config", l.config), 0);
    l.config = of->whole;
    snprintf(path, sizeof path, "%s/m", directory);
    lab_write(&l, path, GRAIL_DTYPE_F32);
    return grail_model_open(path, out);
}

static void assert_result_name(const grail_model *m, const char *stored, const char *expected)
{
    size_t begin = 0;
    const int64_t i = checkpoint_index_of(m->checkpoint, stored);
    assert_true(i >= 0 && !m->left_out[i]);
    OPENED(char, name, model_result_name(m, i, &name, &begin));
    assert_string_equal(name, expected);
    assert_int_equal(begin, strncmp(expected, "model.", 6) == 0 ? 6 : 0);
}

TEST(a_language_model_of_a_larger_network_is_read_by_itself)
{
    static const char *const begins[] = {"language_model.model.", "model.language_model."};
    static const char *const heads[] = {"language_model.", ""};
    for (int i = 0; i < 2; i++) {
        char stored[128];
        const larger of = {.begin = begins[i],
                           .head = heads[i],
                           .add = "vision_tower.patch.weight",
                           .whole = json_pack("{s:s, s:i, s:b}", "model_type", "llava",
                                              "eos_token_id", 7, "tie_word_embeddings", 1),
                           .type = "llama"};
        OPENED(grail_model, m, open_larger(&of, &m));
        assert_notice(m, 0, "its language model is read as a llama by itself; the other 1 ");
        assert_notice(m, 0, "such as 'vision_tower.patch.weight', are not read");
        assert_true(m->left_out[checkpoint_index_of(m->checkpoint, of.add)]);
        snprintf(stored, sizeof stored, "%slayers.1.mlp.up_proj.weight", of.begin);
        assert_result_name(m, stored, "model.layers.1.mlp.up_proj.weight");
        snprintf(stored, sizeof stored, "%slm_head.weight", of.head);
        assert_result_name(m, stored, "lm_head.weight");
        assert_string_equal(json_string_value(json_object_get(m->config, "model_type")), "llama");
        assert_null(json_object_get(m->config, "text_config"));
    }
}

TEST(what_is_unknown_in_a_language_model_is_refused)
{
    static const struct {
        const char *whole, *type, *add, *text;
    } cases[] = {
        {"llava", "llama", "language_model.model.layers.0.scale", "is not part of the llama"},
        {"emu", "emu_text", "vision.w", "(\"text_config\") is a \"emu_text\", which is unknown"},
        {"llama", "gemma2", "vision.w", "\"hidden_size\" is missing"},
    };
    for (int i = 0; i < 3; i++) {
        grail_model *m = NULL;
        const larger of = {.begin = "language_model.model.",
                           .head = "language_model.",
                           .add = cases[i].add,
                           .whole = json_pack("{s:s}", "model_type", cases[i].whole),
                           .type = cases[i].type};
        const grail_status status = open_larger(&of, &m);
        assert_true(status == GRAIL_ERROR_UNSUPPORTED || status == GRAIL_ERROR_FORMAT);
        if (strstr(grail_error_message(), cases[i].text) == NULL) {
            fail_msg("%s", grail_error_message());
        }
    }
}

/* Published configurations leave out what their class has by default. */
TEST(sizes_that_are_left_out_are_those_of_the_class)
{
    OWNED(json_t) *config = json_pack("{s:s, s:{s:s, s:i}}", "model_type", "gemma3", "text_config",
                                      "model_type", "gemma3_text", "hidden_size", 2560);
    OPENED(json_t, out, text_tower_config(config, &out));
    assert_int_equal(json_integer_value(json_object_get(out, "hidden_size")), 2560);
    assert_int_equal(json_integer_value(json_object_get(out, "num_attention_heads")), 8);
    assert_int_equal(json_integer_value(json_object_get(out, "vocab_size")), 262208);
    assert_string_equal(json_string_value(json_array_get(json_object_get(out, "architectures"), 0)),
                        "Gemma3ForCausalLM");
}

CMFixtureFunction support_setup = json_memory_use;
