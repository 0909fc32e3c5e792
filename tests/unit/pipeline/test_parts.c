/* Runs on networks whose values have parts (parts_networks.h). */
#include "parts_networks.h"

#include "graph/operators.h"
#include "pipeline/request/narrowed.h"
#include "planning/cost_table.h"

#include <grail/plan.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Rows and channels of odd units of a network's sites become those of the unit before. */
static void copy_units(vision_model *m, const graph *g, const site *s, const site_end *end)
{
    int used[NODE_MAX_PARAMETERS];
    const int count = node_parameters(&g->nodes[end->node], used);
    for (int i = 0; i < count; i++) {
        vision_tensor *t = vision_find(m, g->parameters[used[i]].tensor);
        const int64_t row = vision_elements(t) / t->shape.shape[0];
        const int64_t unit = row * end->features_per_unit;
        for (int64_t j = 1; j < s->units; j += 2) {
            float *to = t->values + end->first * row + j * unit;
            memcpy(to, to - unit, (size_t)unit * sizeof *to);
        }
    }
}

/* The same of the columns of a consumer. */
static void copy_columns(vision_model *m, const graph *g, const site *s, const site_end *end)
{
    vision_tensor *t = vision_find(m, g->parameters[g->nodes[end->node].weight].tensor);
    const int64_t width = vision_elements(t) / t->shape.shape[0];
    const int64_t taps = width / t->shape.shape[1];
    const int64_t unit = end->features_per_unit * taps;
    const int64_t units = s->units / node_groups(&g->nodes[end->node]); /* that a row reads */
    for (int64_t r = 0; r < t->shape.shape[0]; r++) {
        for (int64_t j = 1; j < units; j += 2) {
            float *to = t->values + r * width + end->first * taps + j * unit;
            memcpy(to, to - unit, (size_t)unit * sizeof *to);
        }
    }
}

/* Every second unit of every site is the one before it, of whole groups or of all others. */
static const char *doubled(const vision_lab *v, const char *net, bool whole)
{
    OWNED(vision_model) m;
    OWNED(grail_model) *model = vision_model_open(parts_written(v, net));
    parts_make(&m, net);
    OPENED(grail_site_list, sites, grail_model_sites(model, GRAIL_GQA_KV_GROUPS, &sites));
    for (int i = 0; i < sites->list.count; i++) {
        const site *s = &sites->list.sites[i];
        if ((s->kind == SITE_GROUPS) != whole) {
            continue;
        }
        for (int k = 0; k < s->producer_count; k++) {
            copy_units(&m, model->graph, s, &s->producers[k]);
        }
        for (int k = 0; k < s->channel_count; k++) {
            copy_units(&m, model->graph, s, &s->channels[k]);
        }
        for (int k = 0; k < s->consumer_count; k++) {
            copy_columns(&m, model->graph, s, &s->consumers[k]);
        }
    }
    vision_write(&m, vision_path(v, "doubled"));
    return vision_path(v, "doubled");
}

/* -- tests ------------------------------------------------------------------------------------- */

VISION_TEST(nothing_cut_changes_no_byte)
{
    for (int i = 0; i < PARTS_NETWORKS; i++) {
        vision_model m;
        const char *model = lab_path_of(&v->l, "dense-%d", i);
        const char *output = lab_path_of(&v->l, "same-%d", i);
        parts_make(&m, parts_networks[i]);
        vision_write(&m, model);
        vision_fini(&m);
        grail_compress_options options = vision_options(v, model, output);
        options.fit.compensate = "full";
        options.fit.refit = "all";
        assert_ok(lab_compress(&options));
        assert_same_checkpoint(model, output);
    }
}

/* Widths are the first site's and then one site's after the other; of channels in groups some of
 * each, or whole groups. */
static void assert_costs(const grail_model *m, const site_list *sites, bool whole)
{
    enum { MOST_SITES = 16 };
    plan_site planned[MOST_SITES] = {{0}};
    int64_t kept[MOST_SITES];
    const plan p = {.count = sites->count, .sites = planned};
    bool may_cut[SITE_KINDS];
    cost_table parameters = {0};
    cost_table macs = {0};
    memset(may_cut, true, sizeof may_cut);
    may_cut[SITE_GROUPS] = whole;
    assert_true(sites->count <= MOST_SITES);
    assert_ok(cost_table_init(m, sites, may_cut, LIMIT_PARAMETERS, &parameters));
    assert_ok(cost_table_init(m, sites, may_cut, LIMIT_MACS, &macs));
    for (int i = 0; i < sites->count; i++) {
        kept[i] = sites->sites[i].units;
        planned[i] = (plan_site){.units = kept[i], .kept = kept[i]};
    }
    for (int i = 0; i < sites->count; i++) {
        grail_model_facts facts = {0};
        parameter_cut *cuts = NULL;
        narrowed_model narrowed = {0};
        if (!site_may_be_cut(&sites->sites[i], may_cut)) {
            continue;
        }
        planned[i].kept = kept[i] = kept[i] / 2;
        assert_ok(cuts_map(m->graph, sites, &p, &cuts));
        assert_ok(narrowed_describe(m, sites, &p, cuts, NULL, &narrowed));
        assert_ok(model_describe_graph(m, narrowed.graph, &facts));
        assert_true(cost_table_read(&parameters, kept) == (double)facts.parameters);
        assert_true(cost_table_read(&macs, kept) == (double)facts.macs_per_token);
        narrowed_fini(&narrowed);
        memory_free(cuts);
    }
    cost_table_fini(&parameters);
    cost_table_fini(&macs);
}

TEST(a_table_costs_what_narrowed_parts_cost)
{
    for (int i = 0; i < PARTS_NETWORKS; i++) {
        OWNED(vision_lab) v;
        OWNED(site_list) sites = {0};
        vision_open(&v);
        OWNED(grail_model) *m = vision_model_open(parts_written(&v, parts_networks[i]));
        assert_ok(sites_derive(m->graph, GQA_KV_GROUPS, &sites));
        assert_costs(m, &sites, false);
        assert_costs(m, &sites, true);
    }
}

static void assert_pruning_is_zeroing(const char *net, const char *by)
{
    OWNED(vision_lab) v;
    vision_model m;
    vision_open(&v);
    const char *model = parts_written(&v, net);
    grail_compress_options options = vision_options(&v, model, vision_path(&v, "narrow"));
    vision_cut(&options, 0.5);
    options.cut.selector = by;
    options.fit.compensate = "none";
    assert_ok(lab_compress(&options));
    parts_make(&m, net);
    assert_pruned_is_zeroed(&v, &m, model, options.output.path);
    vision_fini(&m);
    assert_true(vision_difference(&v, options.output.path, model) > 0.01); /* the cut shows */
}

TEST(pruning_without_repair_equals_zeroing_the_consumers_columns)
{
    static const char *const selectors[] = {"magnitude-l1", "wanda", "obs"};
    for (int i = 0; i < PARTS_NETWORKS; i++) {
        for (int s = 0; s < 3; s++) {
            assert_pruning_is_zeroing(parts_networks[i], selectors[s]);
        }
    }
}

static const char *const modes[] = {"none", "grail", "full"};
static const char by_channel[] = "full, one map for all taps";

/* Half of everything; the ridge of the paper shrinks towards zero, by as much as alpha says. */
static void assert_lossless(const char *net, const char *by, const char *mode, bool open)
{
    OWNED(vision_lab) v;
    vision_open(&v);
    const char *model = doubled(&v, net, false);
    grail_compress_options options = vision_options(&v, model, vision_path(&v, "narrow"));
    vision_cut(&options, 0.5);
    options.cut.selector = by;
    options.fit.compensate = mode == by_channel ? "full" : mode;
    options.fit.conv_fit = mode == by_channel ? "channel" : NULL;
    options.fit.open_loop = open;
    options.amount.sparsity_heads = open ? 0.0 : 0.5; /* folded ones must be observed */
    if (strcmp(mode, "grail") == 0) {
        options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-9};
    }
    assert_ok(lab_compress(&options));
    assert_near(vision_difference(&v, model, options.output.path), 0.0, 5e-4);
}

TEST(doubled_units_fold_without_loss)
{
    for (int i = 0; i < PARTS_NETWORKS; i++) {
        for (int m = 0; m < 3; m++) {
            assert_lossless(parts_networks[i], "fold", modes[m], false);
        }
        assert_lossless(parts_networks[i], "fold", "grail", true);
    }
}

/* What one of two equal units added, the fit gives the other one. */
TEST(doubled_units_are_pruned_without_loss_once_fitted)
{
    for (int i = 0; i < PARTS_NETWORKS; i++) {
        /* to the few images both of two weak units behind its stream are as little as one */
        const bool is_close = strcmp(parts_networks[i], "widened") == 0;
        assert_lossless(parts_networks[i], "obs", "full", false);
        assert_lossless(parts_networks[i], "obs", by_channel, false);
        for (int open = 0; open < 2 && !is_close; open++) {
            assert_lossless(parts_networks[i], "obs", "grail", open == 1);
        }
    }
}

static int64_t rows_of_tensor(const char *output, const char *name, int64_t *columns)
{
    OWNED(vision_model) m;
    vision_read(&m, output);
    const vision_tensor *t = vision_find(&m, name);
    const int64_t rows = t->shape.shape[0];
    *columns = t->shape.shape[1];
    return rows;
}

/* -- whole groups ------------------------------------------------------------------------------ */

static const char *const of_groups[] = {"grouped", "branched"};

/* One of three. */
static void cut_groups(grail_compress_options *options, const char *by, const char *mode)
{
    options->amount.sparsity_groups = 0.34;
    options->cut.selector = by;
    options->fit.compensate = mode;
}

TEST(whole_groups_that_go_are_zeros_to_what_reads_them)
{
    static const char *const selectors[] = {"magnitude-l2", "wanda", "obs", "random"};
    for (int i = 0; i < 2 * 4; i++) {
        vision_lab v;
        vision_model m;
        vision_open(&v);
        const char *model = parts_written(&v, of_groups[i % 2]);
        grail_compress_options options = vision_options(&v, model, vision_path(&v, "narrow"));
        int64_t columns = 0;
        cut_groups(&options, selectors[i / 2], "none");
        assert_ok(lab_compress(&options));
        parts_make(&m, of_groups[i % 2]);
        assert_pruned_is_zeroed(&v, &m, model, options.output.path);
        vision_fini(&m);
        assert_true(vision_difference(&v, options.output.path, model) > 0.01);
        assert_int_equal(rows_of_tensor(options.output.path, "groups.weight", &columns),
                         2 * GROUP_OUT);
        assert_int_equal(columns, GROUP_IN);
        vision_close(&v);
    }
}

TEST(a_group_that_equals_another_one_goes_without_loss)
{
    static const struct {
        const char *by, *mode;
        bool open;
    } runs[] = {{"fold", "none", false}, {"fold", "grail", false}, {"fold", "full", false},
                {"fold", "grail", true}, {"obs", "grail", false},  {"obs", "full", false},
                {"obs", "grail", true}};
    for (size_t i = 0; i < 2 * sizeof runs / sizeof runs[0]; i++) {
        vision_lab v;
        vision_open(&v);
        const char *model = doubled(&v, of_groups[i % 2], true);
        grail_compress_options options = vision_options(&v, model, vision_path(&v, "narrow"));
        cut_groups(&options, runs[i / 2].by, runs[i / 2].mode);
        options.fit.open_loop = runs[i / 2].open;
        options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-9};
        assert_ok(lab_compress(&options));
        assert_near(vision_difference(&v, model, options.output.path), 0.0, 5e-4);
        vision_close(&v);
    }
}

/* The share of the other channels does not reach those in groups, and a fit has what the paper's
 * has. */
TEST(whole_groups_stand_for_their_channels)
{
    vision_lab v;
    int64_t columns = 0;
    vision_open(&v);
    const char *model = parts_written(&v, "grouped");
    grail_compress_options options = vision_options(&v, model, vision_path(&v, "none"));
    vision_cut(&options, 0.5);
    cut_groups(&options, "magnitude-l1", "none");
    assert_ok(lab_compress(&options));
    assert_int_equal(rows_of_tensor(options.output.path, "groups.weight", &columns), 2 * GROUP_OUT);
    assert_int_equal(columns, GROUP_IN);
    const double plain = vision_difference(&v, model, options.output.path);
    options.output.path = vision_path(&v, "fitted");
    options.fit.compensate = "full";
    options.fit.refit = "all";
    assert_ok(lab_compress(&options));
    assert_true(vision_difference(&v, model, options.output.path) < 0.8 * plain);
    const grail_site_sparsity both[] = {{.site = "groups", .sparsity = 0.4},
                                        {.site = "groups[groups]", .sparsity = 0.4}};
    options = vision_options(&v, model, vision_path(&v, "both"));
    options.amount.site_sparsities = both;
    options.amount.site_sparsity_count = 2;
    assert_fails(
        lab_compress(&options), GRAIL_ERROR_UNSUPPORTED,
        "site 'groups': these channels cannot be cut in one run with the whole groups that "
        "they belong to (site 'groups[groups]')");
    vision_close(&v);
}

/* -- what the channels of parts give ----------------------------------------------------------- */

/* Both sites of a consumer are fitted, the second one to what the first has left of the dense
 * output. */
TEST(fits_of_parts_come_nearer_to_the_dense_network)
{
    static const char *const all[] = {"grail", "full"};
    for (int i = 0; i < 2; i++) {
        OWNED(vision_lab) v;
        vision_open(&v);
        const char *model = parts_written(&v, parts_networks[i]);
        grail_compress_options options = vision_options(&v, model, vision_path(&v, "none"));
        vision_cut(&options, 0.5);
        options.cut.selector = "magnitude-l1";
        options.fit.compensate = "none";
        assert_ok(lab_compress(&options));
        const double plain = vision_difference(&v, model, options.output.path);
        for (int m = 0; m < 2; m++) {
            options.output.path = vision_path(&v, all[m]);
            options.fit.compensate = all[m];
            assert_ok(lab_compress(&options));
            assert_true(vision_difference(&v, model, options.output.path) < 0.6 * plain);
        }
    }
}

/* The rows of the fused maps of one network, in the tensors of the other. */
static const char *written_apart(const vision_lab *v)
{
    static const struct {
        const char *name, *fused;
        int64_t first;
    } rows[] = {{"q", "qkv", 0},
                {"k", "qkv", 4 * HEAD_DIM},
                {"v", "qkv", 6 * HEAD_DIM},
                {"gate", "gate_up", 0},
                {"up", "gate_up", INNER}};
    OWNED(vision_model) fused;
    OWNED(vision_model) m;
    parts_make(&fused, "fused");
    parts_make(&m, "apart");
    for (int i = 0; i < m.count; i++) {
        vision_tensor *t = &m.tensors[i];
        const size_t length = strcspn(t->shape.name, ".");
        char from[64];
        int64_t first = 0;
        snprintf(from, sizeof from, "%s", t->shape.name);
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
            if (strlen(rows[r].name) == length && strncmp(rows[r].name, from, length) == 0) {
                snprintf(from, sizeof from, "%s%s", rows[r].fused, t->shape.name + length);
                first = rows[r].first;
                break;
            }
        }
        const int64_t row = vision_elements(t) / t->shape.shape[0];
        memcpy(t->values, vision_find(&fused, from)->values + first * row,
               (size_t)vision_elements(t) * sizeof t->values[0]);
    }
    vision_write(&m, vision_path(v, "apart"));
    return vision_path(v, "apart");
}

/* Whether one tensor holds several maps changes nothing. */
TEST(fused_maps_are_narrowed_like_separate_ones)
{
    static const char *const selectors[] = {"magnitude-l2", "wanda", "obs", "fold"};
    for (int i = 0; i < 4 * 3; i++) {
        vision_lab v;
        vision_open(&v);
        const char *apart = written_apart(&v);
        const char *model = parts_written(&v, "fused");
        assert_near(vision_difference(&v, apart, model), 0.0, 1e-5);
        grail_compress_options options = vision_options(&v, model, vision_path(&v, "narrow"));
        vision_cut(&options, 0.5);
        options.cut.selector = selectors[i / 3];
        options.fit.compensate = modes[i % 3];
        if (i % 3 == 2) { /* what is chosen for each tensor */
            options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-3};
            options.fit.target = "dense";
        }
        assert_ok(lab_compress(&options));
        options.read.model = apart;
        options.output.path = vision_path(&v, "narrow-apart");
        assert_ok(lab_compress(&options));
        assert_near(vision_difference(&v, vision_path(&v, "narrow"), options.output.path), 0.0,
                    1e-4);
        vision_close(&v);
    }
}

/* "grouped" with the rows of each group in a tensor of its own. */
static const char *written_in_groups(const vision_lab *v)
{
    OWNED(vision_model) together;
    OWNED(vision_model) m;
    parts_make(&together, "grouped");
    parts_make(&m, "grouped-apart");
    const float *rows = vision_find(&together, "groups.weight")->values;
    for (int i = 0; i < m.count; i++) {
        vision_tensor *t = &m.tensors[i];
        const bool is_group = strncmp(t->shape.name, "group", 5) == 0 && t->shape.name[5] != 's';
        const float *from = is_group ? rows + (t->shape.name[5] - '0') * vision_elements(t)
                                     : vision_find(&together, t->shape.name)->values;
        memcpy(t->values, from, (size_t)vision_elements(t) * sizeof t->values[0]);
    }
    vision_write(&m, vision_path(v, "apart"));
    return vision_path(v, "apart");
}

/* A convolution in groups keeps of each group what a convolution of that group alone keeps, and its
 * weights are those of a fit for each. */
TEST(groups_are_narrowed_like_separate_convolutions)
{
    static const char *const selectors[] = {"magnitude-l2", "wanda", "obs"};
    static const grail_site_sparsity cuts[] = {{.site = "groups", .sparsity = 0.5},
                                               {.site = "group0", .sparsity = 0.5},
                                               {.site = "group1", .sparsity = 0.5},
                                               {.site = "group2", .sparsity = 0.5}};
    for (int i = 0; i < 3 * 4; i++) {
        vision_lab v;
        int64_t columns = 0;
        vision_open(&v);
        const char *apart = written_in_groups(&v);
        const char *model = parts_written(&v, "grouped");
        assert_near(vision_difference(&v, apart, model), 0.0, 1e-5);
        grail_compress_options options = vision_options(&v, model, vision_path(&v, "narrow"));
        options.amount.site_sparsities = cuts;
        options.amount.site_sparsity_count = 1;
        options.cut.selector = selectors[i / 4];
        options.fit.compensate = i % 4 == 3 ? "full" : modes[i % 4];
        options.fit.conv_fit = i % 4 == 3 ? "channel" : NULL;
        if (i % 4 >= 2) { /* what is chosen for each tensor */
            options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-3};
            options.fit.target = "dense";
            options.fit.bias =
                "off"; /* in a norm behind the groups, but not behind a concatenation */
        }
        assert_ok(lab_compress(&options));
        assert_int_equal(rows_of_tensor(options.output.path, "groups.weight", &columns), 18);
        assert_int_equal(columns, 2);
        options.read.model = apart;
        options.amount.site_sparsities = cuts + 1;
        options.amount.site_sparsity_count = GROUPS;
        options.output.path = vision_path(&v, "narrow-apart");
        assert_ok(lab_compress(&options));
        assert_near(vision_difference(&v, vision_path(&v, "narrow"), options.output.path), 0.0,
                    1e-4);
        vision_close(&v);
    }
}

/* Makes rows of every second unit from `first` on zero, in weight and bias of a norm as well. */
static void clear_units(vision_model *m, const char *name)
{
    for (int i = 0; i < m->count; i++) {
        vision_tensor *t = &m->tensors[i];
        const char *end = strrchr(t->shape.name, '.');
        if ((size_t)(end - t->shape.name) != strlen(name) ||
            strncmp(t->shape.name, name, strlen(name)) != 0 || strcmp(end, ".variance") == 0) {
            continue;
        }
        const int64_t row = vision_elements(t) / t->shape.shape[0];
        for (int64_t j = 1; j < t->shape.shape[0]; j += 2) {
            memset(t->values + j * row, 0, (size_t)row * sizeof t->values[0]);
        }
    }
}

/* Channels that are always zero go, and nothing changes. */
TEST(zero_channels_of_groups_go_without_a_change)
{
    static const char *const selectors[] = {"magnitude-l1", "wanda", "obs"};
    for (int i = 0; i < 3 * 3; i++) {
        OWNED(vision_lab) v;
        vision_model m;
        vision_open(&v);
        parts_make(&m, "grouped");
        clear_units(&m, "first");
        clear_units(&m, "groups");
        clear_units(&m, "groups.bn");
        vision_write(&m, vision_path(&v, "dense"));
        vision_fini(&m);
        const char *model = vision_path(&v, "dense");
        grail_compress_options options = vision_options(&v, model, vision_path(&v, "narrow"));
        static const grail_site_sparsity halves[] = {{.site = "groups", .sparsity = 0.5},
                                                     {.site = "last", .sparsity = 0.5}};
        options.amount.site_sparsities = halves;
        options.amount.site_sparsity_count = 2;
        options.cut.selector = selectors[i / 3];
        options.fit.compensate = modes[i % 3];
        if (i % 3 == 1) {
            options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-9};
        }
        assert_ok(lab_compress(&options));
        assert_near(vision_difference(&v, model, options.output.path), 0.0, 1e-5);
    }
}

/* Folding has no place for merged channels among those of a group. */
VISION_TEST(channels_of_groups_are_not_folded)
{
    int64_t columns = 0;
    grail_compress_options options =
        vision_options(v, parts_written(v, "grouped"), vision_path(v, "narrow"));
    vision_cut(&options, 0.5);
    options.cut.selector = "fold";
    assert_ok(lab_compress(&options));
    assert_int_equal(rows_of_tensor(options.output.path, "groups.weight", &columns), 18);
    assert_int_equal(columns, 4);
    static const grail_site_sparsity half = {.site = "groups", .sparsity = 0.5};
    options.amount.site_sparsities = &half;
    options.amount.site_sparsity_count = 1;
    options.output.path = vision_path(v, "other");
    assert_fails(lab_compress(&options), GRAIL_ERROR_UNSUPPORTED,
                 "site 'groups': channels of a convolution in groups cannot be folded, since each "
                 "group keeps its own; choose a selector that keeps units");
}

/* Curves of the dense network's sites, parts and groups among them, and of those that stay whole.
 */
TEST(widths_of_parts_follow_from_their_curves)
{
    for (int i = 0; i < PARTS_NETWORKS; i++) {
        OWNED(vision_lab) v;
        grail_plan_options options;
        vision_open(&v);
        grail_plan_options_init(&options);
        options.compress = vision_options(&v, parts_written(&v, parts_networks[i]), NULL);
        options.limit = "params";
        options.ratio = 0.95;
        options.budget = "error";
        OPENED(grail_plan, made, grail_plan_make(&options, &made));
    }
}

/* Sets row `unit` of a tensor. */
static void set_unit(vision_model *m, const char *name, int64_t unit, float value)
{
    vision_tensor *t = vision_find(m, name);
    const int64_t row = vision_elements(t) / t->shape.shape[0];
    for (int64_t i = 0; i < row; i++) {
        t->values[unit * row + i] = value;
    }
}

/* The last unit of the branch, which stands last in what "out" reads, is large and constant, and
 * first to go; with it, the first half of "out" would score highest, without it lowest. */
static void make_misleading(vision_model *m)
{
    parts_make(m, "split-on");
    set_unit(m, "branch.weight", 5, 1e-4F);
    set_unit(m, "branch.bn.bias", 5, 1000.0F);
    vision_tensor *out = vision_find(m, "out.weight"); /* [12, 22, 3, 3] */
    for (int64_t i = 0; i < vision_elements(out); i++) {
        const int64_t row = i / (22 * 9);
        const bool of_last = i / 9 % 22 == 21;
        out->values[i] = of_last == (row < 6) ? 1.0F : 0.01F;
    }
}

/* Decisions in an open loop leave out the removed units of every part of what a producer reads. */
VISION_TEST(removed_units_of_later_parts_count_nothing)
{
    OWNED(vision_model) dense;
    OWNED(vision_model) narrow;
    make_misleading(&dense);
    vision_write(&dense, vision_path(v, "dense"));
    grail_compress_options options =
        vision_options(v, vision_path(v, "dense"), vision_path(v, "narrow"));
    vision_cut(&options, 0.5);
    options.cut.selector = "wanda";
    options.fit.compensate = "none";
    options.fit.open_loop = 1;
    assert_ok(lab_compress(&options));
    vision_read(&narrow, options.output.path);
    const vision_tensor *out = vision_find(&narrow, "out.weight");
    assert_int_equal(out->shape.shape[0], 6);
    for (int64_t i = 0; i < 6; i++) {
        assert_true(fabsf(out->values[i * (vision_elements(out) / 6)]) > 0.5F);
    }
}

VISION_TEST(blocks_are_not_healed_where_a_part_leaves_them)
{
    grail_compress_options options =
        vision_options(v, parts_written(v, "beside"), vision_path(v, "narrow"));
    vision_cut(&options, 0.5);
    options.cut.selector = "magnitude-l1";
    options.heal.what = "block";
    options.heal.steps = 2;
    assert_fails(lab_compress(&options), GRAIL_ERROR_UNSUPPORTED,
                 "cuts a part of a value that leaves it; heal the network instead");
}

VISION_TEST(gradients_of_parts_are_refused)
{
    grail_compress_options options =
        vision_options(v, parts_written(v, "fused"), vision_path(v, "narrow"));
    options.amount.sparsity_ffn = 0.5;
    options.cut.selector = "wanda++";
    assert_int_equal(lab_compress(&options), GRAIL_ERROR_UNSUPPORTED);
    assert_non_null(strstr(grail_error_message(), "'down'"));
    assert_non_null(strstr(grail_error_message(), "is a part of what some read or make"));
}
