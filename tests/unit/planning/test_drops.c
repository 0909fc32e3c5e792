/* Plans that may drop whole sublayers: what is worth nothing goes, nothing gets worse, and what
 * cannot be dropped is refused. */
#include "plans.h"

#include "../pipeline/vision_lab.h"

#include "planning/drops.h"

#include <grail/plan.h>

#include <string.h>

/* Sites of a plan: o_proj of layer 0, down_proj of layer 0, then those of layer 1. */
enum { SITES = 4 };

static grail_plan_options dropping(const grail_compress_options *run, const char *budget,
                                   double ratio)
{
    grail_plan_options options = plan_for(run, budget, ratio);
    options.tries = 16;
    options.drop_sublayers = 1;
    return options;
}

static void widths_of(const grail_plan *p, int64_t kept[SITES])
{
    OWNED(json_t) *document = json_loads(grail_plan_text(p), 0, NULL);
    assert_non_null(document);
    const json_t *sites = json_object_get(document, "sites");
    assert_int_equal(json_array_size(sites), SITES);
    for (size_t i = 0; i < SITES; i++) {
        kept[i] = json_integer_value(json_object_get(json_array_get(sites, i), "kept"));
    }
}

/* The golden llama with these consumers of layer 1 scaled by a factor. */
static const char *scaled(const lab *l, const char *name, const char *const parts[], float factor)
{
    OWNED(lab_model) m;
    lab_read(&m, lab_golden("llama3"));
    for (int i = 0; parts[i] != NULL; i++) {
        lab_tensor *t = lab_find(&m, 1, parts[i]);
        for (int64_t e = 0; e < lab_elements(t); e++) {
            t->values[e] *= factor;
        }
    }
    const char *path = lab_path(l, name);
    lab_write(&m, path, GRAIL_DTYPE_F32);
    return path;
}

LAB_TEST(what_adds_little_goes_as_a_whole)
{
    static const char *const budgets[] = {"error", "search"};
    const char *model =
        scaled(l, "model", (const char *const[]){"self_attn.o_proj.weight", NULL}, 1e-3F);
    const grail_compress_options run = lab_options(l, model, NULL);
    for (int b = 0; b < 2; b++) {
        int64_t kept[SITES];
        grail_plan_options options = dropping(&run, budgets[b], 0.8);
        OWNED(grail_plan) *p = made(&options);
        const grail_plan_facts f = grail_plan_facts_get(p);
        widths_of(p, kept);
        assert_int_equal(kept[2], 0);
        assert_true(kept[0] > 0 && kept[1] > 0 && kept[3] > 0);
        assert_true(f.cost <= f.most && f.cost > 0.75 * f.dense_cost);
    }
}

/* What a sublayer leaves goes to the others where errors want it: as if it had always been worth
 * nothing. */
LAB_TEST(the_others_share_what_it_leaves)
{
    int64_t without[SITES];
    int64_t with[SITES];
    const char *model =
        scaled(l, "model", (const char *const[]){"self_attn.o_proj.weight", NULL}, 1e-3F);
    const grail_compress_options run = lab_options(l, model, NULL);
    grail_plan_options options = dropping(&run, "error", 0.6);
    grail_plan *p = made(&options);
    widths_of(p, without);
    grail_plan_free(p);
    options.drop_sublayers = 0;
    p = made(&options);
    widths_of(p, with);
    grail_plan_free(p);
    assert_int_equal(with[2], 1);
    assert_int_equal(without[2], 0);
    assert_true(without[0] >= with[0] && without[1] >= with[1] && without[3] >= with[3]);
    assert_true(without[1] + without[3] > with[1] + with[3]);
    assert_true(without[0] + without[1] + without[3] < 2 * (with[0] + with[1] + with[3]));
}

/* The run that takes the plan has the parameters and the divergence that it promises. */
LAB_TEST(a_run_keeps_what_the_plan_promises)
{
    const char *model =
        scaled(l, "model", (const char *const[]){"self_attn.o_proj.weight", NULL}, 1e-3F);
    grail_compress_options run = lab_options(l, model, lab_path(l, "out"));
    const grail_plan_options options = dropping(&run, "error", 0.8);
    OWNED(grail_plan) *p = made(&options);
    run.amount.plan_text = grail_plan_text(p);
    assert_ok(lab_compress(&run));
    OWNED(json_t) *report = read_json(run.output.path, "report.json");
    const json_t *narrow = json_object_get(report, "narrow");
    assert_true((double)json_integer_value(json_object_get(narrow, "parameters")) ==
                grail_plan_facts_get(p).cost);
}

LAB_TEST(a_search_that_may_drop_is_never_worse)
{
    enum { OPENINGS = 10 };
    static const char *const models[] = {"llama3", "qwen2", "mistral"};
    for (int i = 0; i < 3; i++) {
        const grail_compress_options run = lab_options(l, lab_golden(models[i]), NULL);
        grail_plan_options options = dropping(&run, "search", 0.7);
        options.tries = 24;
        OWNED(grail_plan) *with = made(&options);
        options.tries = OPENINGS; /* which both searches begin with */
        options.drop_sublayers = 0;
        OWNED(grail_plan) *without = made(&options);
        assert_true(grail_plan_facts_get(with).divergence <=
                    grail_plan_facts_get(without).divergence);
        assert_true(grail_plan_facts_get(with).uniform_divergence ==
                    grail_plan_facts_get(without).uniform_divergence);
    }
}

typedef struct trials {
    int drops, backs;
    int blocks; /* trials without a whole block */
    int ffns;   /* drops of an FFN */
    int first;  /* trial that drops a sublayer */
    int first_block;
    double most;
} trials;

static bool begins_with(const char *name, const char *words)
{
    return strncmp(name, words, strlen(words)) == 0;
}

static int note_drops(void *user, const grail_plan_trial *t)
{
    trials *n = user;
    const bool drops = begins_with(t->name, "without model.");
    n->drops += drops ? 1 : 0;
    n->ffns += drops && strstr(t->name, "mlp") != NULL ? 1 : 0;
    n->backs += begins_with(t->name, "again with model.") ? 1 : 0;
    n->blocks += begins_with(t->name, "without block ") ? 1 : 0;
    n->first_block = n->blocks > 0 && n->first_block == 0 ? t->tried : n->first_block;
    n->first = drops && n->first == 0 ? t->tried : n->first;
    return 0;
}

/* What is left is widened; it may be whole before the limit. */
static int note_costs(void *user, const grail_plan_trial *t)
{
    const trials *n = user;
    if (begins_with(t->name, "without model.") || begins_with(t->name, "again with model.")) {
        assert_true(t->cost <= n->most && t->cost > 0.7 * n->most);
    }
    return note_drops(user, t);
}

LAB_TEST(sublayers_are_tried_without_and_taken_back)
{
    trials n = {0};
    const char *model =
        scaled(l, "model", (const char *const[]){"self_attn.o_proj.weight", NULL}, 1e-3F);
    const grail_compress_options run = lab_options(l, model, NULL);
    grail_plan_options options = dropping(&run, "search", 0.5);
    options.budget = "error";
    options.drop_sublayers = 0;
    grail_plan *without = made(&options);
    options.budget = "search";
    options.drop_sublayers = 1;
    options.tries = 24;
    options.observer = note_costs;
    options.observer_user = &n;
    n.most = 0.5 * grail_plan_facts_get(without).dense_cost;
    OWNED(grail_plan) *first = made(&options);
    OWNED(grail_plan) *second = made(&options);
    assert_string_equal(grail_plan_text(first), grail_plan_text(second));
    assert_true(n.drops >= 2 && n.backs >= 2 && n.blocks >= 2);
    assert_true(n.first_block < n.first &&
                n.first <= 14); /* after the formulas, the set of budget error and two blocks */
    n = (trials){0};
    options.drop_sublayers = 0;
    grail_plan_free(without);
    without = made(&options);
    assert_int_equal(n.drops + n.backs, 0);
    grail_plan_free(without);
}

/* What heads of one width cost together is not what the heads of a layer cost. */
LAB_TEST(a_sublayer_costs_its_part_of_a_width_that_is_shared)
{
    spaced s, again;
    drop_space alone = {0};
    drop_space shared = {0};
    const grail_compress_options run = lab_options(l, lab_golden("llama3"), NULL);
    spaced_open(&run, SHARE_NONE, &s);
    assert_ok(drop_space_init(s.request->model->architecture, &s.space, s.curves.of, &alone));
    assert_int_equal(alone.blocks, 2);
    assert_int_equal(alone.count, 2 + SITES);
    spaced_open(&run, SHARE_HEADS, &again);
    assert_ok(drop_space_init(again.request->model->architecture, &again.space, again.curves.of,
                              &shared));
    assert_int_equal(shared.count, alone.count);
    for (int i = 0; i < alone.count; i++) {
        assert_string_equal(shared.choices[i].name, alone.choices[i].name);
        assert_float_equal(shared.choices[i].loss / alone.choices[i].loss, 1.0, 1e-9);
        assert_true(i == 0 || i == alone.blocks ||
                    alone.choices[i].loss >= alone.choices[i - 1].loss);
    }
    drop_space_fini(&alone);
    drop_space_fini(&shared);
    spaced_close(&again);
    spaced_close(&s);
}

LAB_TEST(what_costs_nothing_stays)
{
    trials n = {0};
    const grail_compress_options run = lab_options(l, lab_golden("llama3"), NULL);
    grail_plan_options options = dropping(&run, "search", 0.5);
    options.limit = "kv-bytes";
    options.tries = 24;
    options.observer = note_drops;
    options.observer_user = &n;
    OWNED(grail_plan) *p = made(&options);
    assert_true(n.drops > 0);
    assert_int_equal(n.ffns, 0);
    assert_int_equal(n.blocks, 0); /* with one sublayer that may go they are that sublayer */
}

/* Then what is left is a network of fewer layers, which stock loaders open. */
LAB_TEST(with_uniform_widths_whole_layers_go)
{
    static const char *const parts[] = {"self_attn.o_proj.weight", "mlp.down_proj.weight", NULL};
    int64_t kept[SITES];
    const char *model = scaled(l, "model", parts, 1e-3F);
    grail_compress_options run = lab_options(l, model, lab_path(l, "out"));
    grail_plan_options options = dropping(&run, "error", 0.6);
    options.uniform_widths = 1;
    grail_plan *p = made(&options);
    widths_of(p, kept);
    assert_true(kept[0] > 0 && kept[1] > 0);
    assert_int_equal(kept[2], 0);
    assert_int_equal(kept[3], 0);
    run.amount.plan_text = grail_plan_text(p);
    assert_ok(lab_compress(&run));
    json_t *report = read_json(run.output.path, "report.json");
    const json_t *stock = json_array_get(json_object_get(report, "loaders"), 0);
    assert_true(json_is_true(json_object_get(stock, "loads")));
    json_decref(report);
    grail_plan_free(p);
    options.compress.read.model =
        scaled(l, "half", (const char *const[]){"self_attn.o_proj.weight", NULL}, 1e-3F);
    options.ratio = 0.8;
    p = made(&options); /* the FFN matters */
    widths_of(p, kept);
    assert_int_equal(kept[2] == 0, kept[3] == 0);
    grail_plan_free(p);
    p = NULL;
    options.kinds = "ffn"; /* attentions stay, so no layer can go */
    assert_fails(grail_plan_make(&options, &p), GRAIL_ERROR_ARGUMENT,
                 "of a block that can go with all of them");
}

VISION_TEST(what_cannot_drop_is_refused)
{
    static const char *const budgets[] = {"uniform", "flap", "slimgpt"};
    lab l;
    grail_plan *p = NULL;
    lab_open(&l);
    const grail_compress_options run = lab_options(&l, lab_golden("llama3"), NULL);
    for (int b = 0; b < 3; b++) {
        const grail_plan_options options = dropping(&run, budgets[b], 0.8);
        assert_fails(grail_plan_make(&options, &p), GRAIL_ERROR_ARGUMENT,
                     "gives every sublayer a width; sublayers are dropped by the budgets search");
    }
    lab_close(&l);
    const grail_compress_options images =
        vision_options(v, vision_network(v, VISION_TIMM_VIT, "vit"), NULL);
    const grail_plan_options options = dropping(&images, "error", 0.9);
    assert_fails(grail_plan_make(&options, &p), GRAIL_ERROR_UNSUPPORTED,
                 "a checkpoint of a vit network cannot say that a block lacks a sublayer");
}
