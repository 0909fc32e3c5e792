/* The table of costs against the network that is really narrowed: all golden networks, random
 * widths. */
#include "planning/cost_table.h"

#include "base/random.h"
#include "graph/sublayer.h"
#include "pipeline/request/narrowed.h"
#include "support/support.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

enum { MOST_SITES = 256, ROUNDS = 12 };

/* kept[sites]: all units of the kinds that stay; a sublayer may go. */
static void draw_widths(const grail_model *m, const site_list *sites, const bool *may_cut,
                        random_state *random, int64_t *kept)
{
    sublayer found;
    for (int i = 0; i < sites->count; i++) {
        const site *s = &sites->sites[i];
        const int64_t step = s->groups;
        const bool may_go = may_cut[s->kind] && m->architecture->rename_tensor != NULL &&
                            sublayer_of(m->graph, s, &found);
        kept[i] = !may_cut[s->kind]    ? s->units
                  : s->measure != NULL ? site_times(s) * kept[s->measure - sites->sites]
                  : may_go && random_below(random, 5) == 0
                      ? 0
                      : step * (1 + random_below(random, s->units / step));
    }
}

/* What the narrowed graph costs. */
static grail_model_facts count_narrowed(const grail_model *m, const site_list *sites,
                                        const int64_t *kept)
{
    grail_model_facts facts = {0};
    parameter_cut *cuts = NULL;
    narrowed_model narrowed = {0};
    plan_site planned[MOST_SITES] = {{0}};
    const plan p = {.count = sites->count, .sites = planned};
    for (int i = 0; i < sites->count; i++) {
        planned[i] = (plan_site){.units = sites->sites[i].units, .kept = kept[i]};
    }
    assert_ok(cuts_map(m->graph, sites, &p, &cuts));
    assert_ok(narrowed_describe(m, sites, &p, cuts, NULL, &narrowed));
    assert_ok(model_describe_graph(m, narrowed.graph, &facts));
    narrowed_fini(&narrowed);
    memory_free(cuts);
    return facts;
}

/* Returns how many of the rounds cost less than the dense network. */
static int compare(const grail_model *m, const site_list *sites, const bool *may_cut)
{
    int64_t kept[MOST_SITES];
    cost_table tables[LIMIT_KINDS];
    random_state random;
    int fewer = 0;
    assert_true(sites->count <= MOST_SITES);
    random_seed(&random, 7, 0);
    for (int limited = 0; limited < LIMIT_KINDS; limited++) {
        assert_ok(cost_table_init(m, sites, may_cut, (limit_kind)limited, &tables[limited]));
    }
    for (int round = 0; round < ROUNDS; round++) {
        draw_widths(m, sites, may_cut, &random, kept);
        grail_model_facts facts = count_narrowed(m, sites, kept);
        const int64_t counted[LIMIT_KINDS] = {
            [LIMIT_PARAMETERS] = facts.parameters,
            [LIMIT_MACS] = facts.macs_per_token,
            [LIMIT_KV_BYTES] = facts.kv_bytes_per_token,
            [LIMIT_BYTES] = facts.bytes,
        };
        for (int limited = 0; limited < LIMIT_KINDS; limited++) {
            assert_true(cost_table_read(&tables[limited], kept) == (double)counted[limited]);
        }
        assert_ok(grail_model_describe(m, &facts));
        fewer += counted[LIMIT_PARAMETERS] < facts.parameters ? 1 : 0;
    }
    for (int limited = 0; limited < LIMIT_KINDS; limited++) {
        cost_table_fini(&tables[limited]);
    }
    return fewer;
}

static void compare_model(const char *path)
{
    grail_model *m = NULL;
    const gqa_mode modes[] = {GQA_KV_GROUPS, GQA_QUERY_PER_GROUP};
    if (grail_model_open(path, &m) != GRAIL_OK) { /* towers without a configuration need it */
        const char *const settings[] = {"head_dim=16"};
        const grail_model_options options = {.settings = settings, .setting_count = 1};
        assert_ok(grail_model_open_with(path, &options, &m));
    }
    for (int i = 0; i < 2; i++) {
        OWNED(site_list) sites = {0};
        assert_ok(sites_derive(m->graph, modes[i], &sites));
        for (int beside = 0; beside < 2; beside++) {
            bool may_cut[SITE_KINDS] = {false};
            may_cut[SITE_FFN] = may_cut[SITE_CONV] = may_cut[SITE_STREAM] = may_cut[SITE_LATENT] =
                true;
            may_cut[beside == 0 ? SITE_HEADS : SITE_VALUES] = true;
            if (compare(m, &sites, may_cut) < ROUNDS / 2) {
                fail_msg("%s: nothing was narrowed", path);
            }
        }
    }
    grail_model_close(m);
}

/* Every entry of a folder that is a network. */
static void compare_folder(const char *folder, const char *ending, int least)
{
    char path[1024];
    int count = 0;
    snprintf(path, sizeof path, "%s/tests/golden/%s", GRAIL_SOURCE_DIR, folder);
    DIR *list = opendir(path);
    assert_non_null(list);
    for (const struct dirent *e = readdir(list); e != NULL; e = readdir(list)) {
        const char *dot = strchr(e->d_name, '.');
        if (strcmp(e->d_name, "onnx_vit") == 0) { /* a constant counts heads for both layers, which
                                                     would have to keep as many */
            continue;
        }
        if (strcmp(dot == NULL ? "" : dot, ending) == 0 && strcmp(e->d_name, "blocks.gguf") != 0) {
            snprintf(path, sizeof path, "%s/tests/golden/%s/%s%s", GRAIL_SOURCE_DIR, folder,
                     e->d_name,
                     strstr(e->d_name, "-pth") != NULL    ? "/model.pth"
                     : strncmp(e->d_name, "onnx", 4) == 0 ? "/net.onnx"
                                                          : "");
            compare_model(path);
            count++;
        }
    }
    closedir(list);
    assert_true(count >= least);
}

TEST(a_table_costs_what_the_narrowed_language_model_costs)
{
    compare_folder("models", "", 40);
}

TEST(a_table_costs_what_the_narrowed_image_network_costs)
{
    compare_folder("vision", "", 10);
}

/* Weights in blocks. */
TEST(a_table_costs_what_the_narrowed_gguf_file_costs)
{
    compare_folder("gguf", ".gguf", 4);
}
