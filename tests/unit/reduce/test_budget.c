/* From a removed fraction to kept widths. */
#include "../graph/build.h"

#include "reduce/budget.h"

#include <math.h>
#include <string.h>

/* K = n - floor(r n) in exact arithmetic: r is tenths. */
TEST(counts_do_not_suffer_from_binary_fractions)
{
    static const int64_t units[] = {10, 20, 40, 64, 100, 512, 640, 1000};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        for (int64_t tenths = 1; tenths <= 9; tenths++) {
            const site s = {.name = "s", .units = units[i], .groups = 1};
            int64_t kept = 0;
            assert_ok(budget_kept_units(&s, (double)tenths / 10.0, &kept));
            assert_int_equal(kept, units[i] - units[i] * tenths / 10);
            assert_ok(budget_kept_units(&s, 1.0 - (double)(10 - tenths) / 10.0, &kept));
            assert_int_equal(kept, units[i] - units[i] * tenths / 10);
        }
    }
}

TEST(every_group_keeps_equally_many)
{
    const site s = {.name = "s", .units = 12, .groups = 3};
    int64_t kept = 0;
    assert_ok(budget_kept_units(&s, 0.0, &kept));
    assert_int_equal(kept, 12);
    assert_ok(budget_kept_units(&s, 0.3, &kept)); /* one of four */
    assert_int_equal(kept, 9);
    assert_ok(budget_kept_units(&s, 0.99, &kept));
    assert_int_equal(kept, 3);
}

TEST(impossible_fractions_are_refused)
{
    const site s = {.name = "a.b", .units = 4, .groups = 1};
    int64_t kept = 0;
    assert_fails(budget_kept_units(&s, 1.0, &kept), GRAIL_ERROR_ARGUMENT,
                 "sparsity 1 is outside [0, 1)");
    assert_fails(budget_kept_units(&s, 30.0, &kept), GRAIL_ERROR_ARGUMENT,
                 ", such as 0.3 for 30 %");
    assert_fails(budget_kept_units(&s, -0.01, &kept), GRAIL_ERROR_ARGUMENT, "outside [0, 1)");
    assert_fails(budget_kept_units(&s, (double)NAN, &kept), GRAIL_ERROR_ARGUMENT, "outside");
    assert_fails(budget_kept_units(&s, 0.9999999999, &kept), GRAIL_ERROR_ARGUMENT,
                 "site 'a.b' would lose all of its 4 units");
}

/* K = max(1, floor(n (1 - r))), as the paper's vision code counts channels. */
TEST(channels_round_down_and_keep_one)
{
    static const int64_t units[] = {10, 20, 40, 64, 100, 512, 640, 1000};
    static const site_kind kinds[] = {SITE_CONV, SITE_STREAM};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        for (int64_t tenths = 1; tenths <= 9; tenths++) {
            const site s = {.name = "s", .kind = kinds[i % 2], .units = units[i], .groups = 1};
            int64_t kept = 0;
            assert_ok(budget_kept_units(&s, (double)tenths / 10.0, &kept));
            assert_int_equal(kept, units[i] * (10 - tenths) / 10);
        }
    }
    const site few = {.name = "s", .kind = SITE_CONV, .units = 4, .groups = 1};
    int64_t kept = 0;
    assert_ok(budget_kept_units(&few, 0.9, &kept));
    assert_int_equal(kept, 1);
    assert_fails(budget_kept_units(&few, 1.0, &kept), GRAIL_ERROR_ARGUMENT, "outside [0, 1)");
}

/* -- a network of one block: `heads` heads of 4, an ffn of `inner`, 8 wide -------------------- */

typedef struct network {
    graph *g;
    site_list sites; /* 0: "o", heads of 128 parameters; 1: "down", neurons of 24 */
    plan p;
} network;

enum { WIDE = 8, DIM = 4 };

static void setup(network *n, int64_t heads, int64_t inner)
{
    *n = (network){0};
    assert_ok(graph_create(&n->g));
    int h = add_embedding(n->g, "embed", 10, WIDE);
    int x = add_norm(n->g, 0, "norm", WIDE, 0, h);
    const int q = add_linear(n->g, 0, "q", WIDE, heads * DIM, false, x);
    const int k = add_linear(n->g, 0, "k", WIDE, heads * DIM, false, x);
    const int v = add_linear(n->g, 0, "v", WIDE, heads * DIM, false, x);
    x = add_linear(n->g, 0, "o", heads * DIM, WIDE, false, add_attention(n->g, 0, DIM, q, k, v));
    h = add_plain(n->g, 0, NODE_ADD, h, x);
    x = add_norm(n->g, 0, "norm2", WIDE, 0, h);
    const int gate = add_linear(n->g, 0, "gate", WIDE, inner, false, x);
    const int up = add_linear(n->g, 0, "up", WIDE, inner, false, x);
    x = add_plain(n->g, 0, NODE_MULTIPLY, gate, up);
    h = add_plain(n->g, 0, NODE_ADD, h, add_linear(n->g, 0, "down", inner, WIDE, false, x));
    x = add_norm(n->g, 1, "final", WIDE, 0, h);
    assert_ok(graph_finish(n->g, add_linear(n->g, 1, "head", WIDE, 10, false, x)));
    assert_ok(sites_derive(n->g, GQA_KV_GROUPS, &n->sites));
    assert_int_equal(n->sites.count, 2);
    assert_ok(plan_init(&n->p, &n->sites, &selector_wanda));
}

static void teardown(network *n)
{
    plan_fini(&n->p);
    site_list_fini(&n->sites);
    graph_free(n->g);
}

OWNS(network, teardown)

/* Widths kept of the ffn, where the network has `inner` of them and no head is cut. */
static int64_t ffn_kept_in_blocks(int64_t inner, double sparsity, int64_t align, int64_t block)
{
    OWNED(network) n;
    setup(&n, 3, inner);
    const budget b = {.sparsity = {[SITE_FFN] = sparsity},
                      .align = {.step = align, .block = block}};
    assert_ok(budget_apply(&b, &n.sites, &n.p));
    const int64_t kept = n.p.sites[1].kept;
    assert_int_equal(n.p.sites[0].kept, 3);
    return kept;
}

static int64_t ffn_kept(int64_t inner, double sparsity, int64_t align)
{
    return ffn_kept_in_blocks(inner, sparsity, align, 1);
}

TEST(nothing_asked_keeps_everything)
{
    assert_int_equal(ffn_kept(100, 0.0, ALIGN_AUTO), 100);
    assert_int_equal(ffn_kept(100, 0.0, 32), 100);
    assert_int_equal(ffn_kept(100, 0.0, 1), 100);
}

TEST(widths_are_multiples_of_what_is_asked)
{
    assert_int_equal(ffn_kept(100, 0.5, 1), 50);
    assert_int_equal(ffn_kept(100, 0.55, 1), 45);
    assert_int_equal(ffn_kept(100, 0.5, 8), 48);  /* 48 and 56 around 50 */
    assert_int_equal(ffn_kept(100, 0.48, 8), 56); /* 52 lies between: up */
    assert_int_equal(ffn_kept(100, 0.9, 32), 32);
    assert_int_equal(ffn_kept(100, 0.5, 64), 64);
    assert_int_equal(ffn_kept(100, 0.5, 128), 100); /* no multiple fits: the site stays */
}

TEST(auto_takes_the_largest_multiple_that_changes_little)
{
    assert_int_equal(ffn_kept(1000, 0.5, ALIGN_AUTO), 512);   /* 128: 12 off, of 50 allowed */
    assert_int_equal(ffn_kept(640, 0.5, ALIGN_AUTO), 320);    /* 64: 384 is 64 off, of 32 */
    assert_int_equal(ffn_kept(11008, 0.3, ALIGN_AUTO), 7680); /* 128 */
    assert_int_equal(ffn_kept(1536, 0.3, ALIGN_AUTO), 1088); /* 64: 1024 is 51 off, of 46 that go */
    assert_int_equal(ffn_kept(480, 0.3, ALIGN_AUTO), 336);   /* 16: 320 is 16 off, of 14 */
    assert_int_equal(ffn_kept(100, 0.5, ALIGN_AUTO), 48);    /* 16 */
    assert_int_equal(ffn_kept(64, 0.25, ALIGN_AUTO), 48);
    assert_int_equal(ffn_kept(1000, 0.02, ALIGN_AUTO), 984); /* 8, though 4 off, of 2 */
}

TEST(a_few_units_are_aligned_where_that_changes_little)
{
    assert_int_equal(ffn_kept(31, 0.5, ALIGN_AUTO), 16); /* 15.5 */
    assert_int_equal(ffn_kept(30, 0.5, ALIGN_AUTO), 16); /* 15 */
    assert_int_equal(ffn_kept(20, 0.5, ALIGN_AUTO), 10); /* 8 is 2 off, of 1 */
    assert_int_equal(ffn_kept(30, 0.99, ALIGN_AUTO), 1);
    assert_int_equal(ffn_kept(32, 0.3, ALIGN_AUTO), 24);
    assert_int_equal(ffn_kept(40, 0.99, ALIGN_AUTO), 8);
}

TEST(auto_takes_a_multiple_of_8_in_every_larger_site)
{
    for (int64_t units = 32; units < 600; units += 7) {
        for (int percent = 1; percent < 100; percent += 3) {
            const int64_t kept = ffn_kept(units, percent / 100.0, ALIGN_AUTO);
            assert_true(kept == units || kept % 8 == 0);
        }
    }
}

TEST(auto_keeps_whole_blocks_where_a_site_has_two_of_them)
{
    assert_int_equal(ffn_kept_in_blocks(1536, 0.3, ALIGN_AUTO, 256), 1024);
    assert_int_equal(ffn_kept_in_blocks(512, 0.3, ALIGN_AUTO, 256), 256);
    assert_int_equal(ffn_kept_in_blocks(500, 0.3, ALIGN_AUTO, 256), 352); /* two of 32 */
    assert_int_equal(ffn_kept_in_blocks(480, 0.3, ALIGN_AUTO, 32), 352);
    assert_int_equal(ffn_kept_in_blocks(40, 0.3, ALIGN_AUTO, 32), 32);
    assert_int_equal(ffn_kept_in_blocks(1536, 0.3, 8, 256), 1072); /* as was asked */
}

/* 3 heads, of which 0.3 is 0.9: one goes. For 1.5 one goes, and for 2.7 two: one stays. */
TEST(each_kind_gets_its_own_nearest_count)
{
    static const struct {
        double sparsity;
        int64_t heads, ffn;
    } cases[] = {{0.1, 3, 88}, {0.3, 2, 64}, {0.5, 2, 48}, {0.7, 1, 32}, {0.9, 1, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        OWNED(network) n;
        setup(&n, 3, 96);
        budget b = {.sparsity = {cases[i].sparsity, cases[i].sparsity}};
        assert_ok(budget_apply(&b, &n.sites, &n.p));
        assert_int_equal(n.p.sites[0].kept, cases[i].heads);
        assert_int_equal(n.p.sites[1].kept, cases[i].ffn);
        b.sparsity[SITE_HEADS] = 0.0; /* the ffn loses as much beside any heads */
        assert_ok(budget_apply(&b, &n.sites, &n.p));
        assert_int_equal(n.p.sites[0].kept, 3);
        assert_int_equal(n.p.sites[1].kept, cases[i].ffn);
    }
}

/* As published: of 2.7 heads two, of 0.9 none. */
TEST(without_alignment_all_is_counted_as_published)
{
    OWNED(network) n;
    setup(&n, 3, 96);
    budget b = {.sparsity = {0.3, 0.3}, .align = {.step = 1}};
    assert_ok(budget_apply(&b, &n.sites, &n.p));
    assert_int_equal(n.p.sites[0].kept, 3);
    assert_int_equal(n.p.sites[1].kept, 68); /* 96 - 28 */
}

TEST(a_site_may_be_given_a_fraction_of_its_own)
{
    network n;
    setup(&n, 4, 100);
    const grail_site_sparsity own[] = {{.site = "o", .sparsity = 0.75},
                                       {.site = "down", .sparsity = 0.3}};
    budget b = {
        .overrides = own, .override_count = 1, .sparsity = {0.5, 0.5}, .align = {.step = 1}};
    assert_ok(budget_apply(&b, &n.sites, &n.p));
    assert_int_equal(n.p.sites[0].kept, 1);
    assert_int_equal(n.p.sites[1].kept, 50);
    b.override_count = 2;
    b.align.step = 8;
    assert_ok(budget_apply(&b, &n.sites, &n.p));
    assert_int_equal(n.p.sites[0].kept, 1); /* heads are never aligned */
    assert_int_equal(n.p.sites[1].kept, 72);
    teardown(&n);
}

/* Two FFNs of one block, of which the second is measured by the first. */
static void setup_measured(network *n, int64_t inner, int64_t times)
{
    *n = (network){0};
    assert_ok(graph_create(&n->g));
    n->g->one_width = true;
    int h = add_embedding(n->g, "embed", 10, WIDE);
    for (int i = 0; i < 2; i++) {
        const int64_t width = i == 0 ? inner : inner * times;
        const int x = add_norm(n->g, 0, i == 0 ? "norm" : "norm2", WIDE, 0, h);
        const int up = add_linear(n->g, 0, i == 0 ? "up" : "up2", WIDE, width, false, x);
        const int down = add_linear(n->g, 0, i == 0 ? "down" : "down2", width, WIDE, false, up);
        h = add_plain(n->g, 0, NODE_ADD, h, down);
    }
    h = add_norm(n->g, 1, "final", WIDE, 0, h);
    assert_ok(graph_finish(n->g, add_linear(n->g, 1, "head", WIDE, 10, false, h)));
    assert_ok(sites_derive(n->g, GQA_KV_GROUPS, &n->sites));
    assert_int_equal(n->sites.count, 2);
    assert_ptr_equal(n->sites.sites[1].measure, &n->sites.sites[0]);
    assert_null(n->sites.sites[0].measure);
    assert_ok(plan_init(&n->p, &n->sites, &selector_wanda));
}

TEST(a_measured_site_keeps_a_multiple)
{
    static const int64_t sizes[][2] = {{51, 2}, {51, 5}, {16, 2}, {17, 1}, {1408, 2}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int64_t step = 0; step < 17; step += step < 2 ? 1 : 7) {
            OWNED(network) n;
            setup_measured(&n, sizes[i][0], sizes[i][1]);
            for (double r = 0.05; r < 0.95; r += 0.05) {
                const budget b = {.sparsity = {[SITE_FFN] = r}, .align = {.step = step}};
                assert_ok(budget_apply(&b, &n.sites, &n.p));
                assert_int_equal(n.p.sites[1].kept, sizes[i][1] * n.p.sites[0].kept);
            }
        }
    }
}

TEST(a_fraction_of_a_measured_site_gives_the_nearest_multiple)
{
    OWNED(network) n;
    setup_measured(&n, 51, 5);
    const grail_site_sparsity own[] = {{.site = "down2", .sparsity = 0.45},
                                       {.site = "down", .sparsity = 0.45}};
    const budget b = {.overrides = own, .override_count = 2, .align = {.step = 1}};
    assert_ok(budget_apply(&b, &n.sites, &n.p));
    assert_int_equal(n.p.sites[0].kept, 29);
    assert_int_equal(n.p.sites[1].kept, 145); /* of 141 */
    const budget uncut = {.overrides = own + 1, .override_count = 1, .align = {.step = 1}};
    assert_ok(budget_apply(&uncut, &n.sites, &n.p));
    assert_int_equal(n.p.sites[1].kept, 8 * 29); /* of 255 */
}

TEST(what_makes_no_sense_is_refused)
{
    OWNED(network) n;
    setup(&n, 4, 100);
    const grail_site_sparsity own = {.site = "nowhere", .sparsity = 0.5};
    budget b = {.overrides = &own, .override_count = 1, .align = {.step = 1}};
    assert_fails(budget_apply(&b, &n.sites, &n.p), GRAIL_ERROR_ARGUMENT,
                 "'nowhere' is neither a site of this model nor a kind of site");
    const grail_site_sparsity twice[] = {{.site = "o", .sparsity = 0.5},
                                         {.site = "o", .sparsity = 0.2}};
    b = (budget){.overrides = twice, .override_count = 2, .align = {.step = 1}};
    assert_fails(budget_apply(&b, &n.sites, &n.p), GRAIL_ERROR_ARGUMENT,
                 "site 'o' has two sparsities");
    b = (budget){.align = {.step = -1}};
    assert_fails(budget_apply(&b, &n.sites, &n.p), GRAIL_ERROR_ARGUMENT,
                 "alignment -1 is negative");
    b = (budget){.sparsity = {[SITE_HEADS] = 1.0}};
    assert_fails(budget_apply(&b, &n.sites, &n.p), GRAIL_ERROR_ARGUMENT, "outside [0, 1)");
}

/* A stem and a block with an identity: a residual stream, and channels between the convolutions. */
static void setup_images(network *n, int64_t stream, int64_t conv)
{
    *n = (network){0};
    assert_ok(graph_create(&n->g));
    n->g->input_kind = INPUT_IMAGES;
    int h = add_conv(n->g, GRAPH_NONE, "stem", IMAGE_CHANNELS, stream, 3, 1, n->g->input);
    int y = add_batch_norm(n->g, 0, "bn1", conv, add_conv(n->g, 0, "conv1", stream, conv, 3, 1, h));
    y = add_plain(n->g, 0, NODE_ACTIVATION, y, GRAPH_NONE);
    y = add_batch_norm(n->g, 0, "bn2", stream, add_conv(n->g, 0, "conv2", conv, stream, 3, 1, y));
    h = add_plain(n->g, 1, NODE_MEAN, add_plain(n->g, 0, NODE_ADD, h, y), GRAPH_NONE);
    assert_ok(graph_finish(n->g, add_linear(n->g, 1, "head", stream, 10, true, h)));
    assert_ok(sites_derive(n->g, GQA_KV_GROUPS, &n->sites));
    assert_int_equal(n->sites.count, 2);
    assert_int_equal(n->sites.sites[0].kind, SITE_STREAM);
    assert_int_equal(n->sites.sites[1].kind, SITE_CONV);
    assert_ok(plan_init(&n->p, &n->sites, &selector_magnitude_l1));
}

static void assert_kept_of(int64_t all_stream, int64_t all_conv, const budget *b, int64_t stream,
                           int64_t conv)
{
    OWNED(network) n;
    setup_images(&n, all_stream, all_conv);
    assert_ok(budget_apply(b, &n.sites, &n.p));
    assert_int_equal(n.p.sites[0].kept, stream);
    assert_int_equal(n.p.sites[1].kept, conv);
}

static void assert_channels_kept(const budget *b, int64_t stream, int64_t conv)
{
    assert_kept_of(24, 40, b, stream, conv);
}

TEST(channels_are_cut_by_their_own_kinds_and_aligned_on_request)
{
    const budget conv = {.sparsity = {[SITE_CONV] = 0.5, [SITE_FFN] = 0.9}};
    assert_channels_kept(&conv, 24, 24); /* 20 lies between: up */
    const budget stream = {.sparsity = {[SITE_STREAM] = 0.3, [SITE_HEADS] = 0.9}};
    assert_channels_kept(&stream, 16, 40); /* 16.8 */
    const budget third = {.sparsity = {[SITE_STREAM] = 0.3, [SITE_CONV] = 0.3}};
    assert_channels_kept(&third, 16, 32); /* 28 lies between: up */
    const budget by_eight = {.sparsity = {[SITE_STREAM] = 0.4, [SITE_CONV] = 0.45},
                             .align = {.step = 8}};
    assert_channels_kept(&by_eight, 16, 24); /* 14 and 22 */
    const budget by_sixteen = {.sparsity = {[SITE_STREAM] = 0.9, [SITE_CONV] = 0.9},
                               .align = {.step = 16}};
    assert_channels_kept(&by_sixteen, 16, 16); /* never none */
}

TEST(auto_rounds_channels_where_that_changes_little)
{
    const budget third = {.sparsity = {[SITE_STREAM] = 0.3, [SITE_CONV] = 0.3}};
    assert_kept_of(64, 128, &third, 48, 96);    /* 44 and 89 */
    assert_kept_of(256, 512, &third, 192, 352); /* 179 and 358 */
    assert_kept_of(16, 32, &third, 11, 24);     /* 11, which 8 and 16 are far from, and 22 */
    const budget little = {.sparsity = {[SITE_STREAM] = 0.02, [SITE_CONV] = 0.02}};
    assert_kept_of(64, 128, &little, 64, 128);
    assert_kept_of(24, 16, &little, 23, 15); /* 8 would leave them uncut */
}

static int64_t kept_of_groups(int64_t units, int64_t groups, int64_t step, double sparsity,
                              const selector *rule)
{
    site one = {.name = "s", .kind = SITE_CONV, .units = units, .groups = groups};
    plan_site own = {.selector = rule, .units = units};
    plan p = {.sites = &own, .count = 1};
    const site_list sites = {.sites = &one, .count = 1};
    const budget b = {.sparsity = {[SITE_CONV] = sparsity}, .align = {.step = step}};
    assert_ok(budget_apply(&b, &sites, &p));
    return own.kept;
}

/* The nearest number of each group; of more where that makes round widths and changes little. */
static int64_t kept_of_whole(int64_t groups, int64_t channels, int64_t step, double sparsity)
{
    site_end reader = {.features_per_unit = channels};
    site one[] = {{.name = "c[groups]",
                   .kind = SITE_GROUPS,
                   .units = groups,
                   .groups = 1,
                   .consumers = &reader,
                   .consumer_count = 1},
                  {.name = "c", .kind = SITE_CONV, .units = groups * channels, .groups = groups}};
    const site_list sites = {.sites = one, .count = 2};
    plan_site planned[2] = {{0}};
    plan p = {.count = 2, .sites = planned};
    const budget b = {.sparsity = {[SITE_GROUPS] = sparsity, [SITE_CONV] = 0.5},
                      .align = {.step = step}};
    one[1].whole = &one[0];
    assert_ok(budget_apply(&b, &sites, &p));
    assert_true((planned[0].kept < groups) == (planned[1].kept == groups * channels));
    return planned[0].kept;
}

/* A multiple of 8 channels where that moves little, and of as many as are asked for. */
TEST(whole_groups_keep_all_of_their_channels)
{
    assert_int_equal(kept_of_whole(32, 4, ALIGN_AUTO, 0.2), 26); /* 25.6 to 104 channels */
    assert_int_equal(kept_of_whole(32, 4, ALIGN_AUTO, 0.4), 20); /* 19.2 to 80 */
    assert_int_equal(kept_of_whole(16, 4, ALIGN_AUTO, 0.3), 12); /* 11.2 to 48 */
    assert_int_equal(kept_of_whole(25, 16, ALIGN_AUTO, 0.5), 13);
    assert_int_equal(kept_of_whole(2, 16, ALIGN_AUTO, 0.2), 2);
    assert_int_equal(kept_of_whole(2, 16, ALIGN_AUTO, 0.5), 1);
    assert_int_equal(kept_of_whole(3, 2, ALIGN_AUTO, 0.34), 2); /* 8 channels are more than there */
    assert_int_equal(kept_of_whole(32, 4, 1, 0.2), 26);         /* 6.4 down, as published */
    assert_int_equal(kept_of_whole(32, 4, 32, 0.2), 24);
    assert_int_equal(kept_of_whole(32, 4, 24, 0.2), 24);
    assert_int_equal(kept_of_whole(4, 5, 8, 0.9), 4); /* 8 groups are none to keep */
}

TEST(groups_of_channels_keep_as_many_each)
{
    const selector *rule = &selector_magnitude_l1;
    assert_int_equal(kept_of_groups(128, 32, ALIGN_AUTO, 0.2, rule), 96);  /* 3 of 4: 102.4 */
    assert_int_equal(kept_of_groups(160, 10, ALIGN_AUTO, 0.2, rule), 120); /* steps of 40: 128 */
    assert_int_equal(kept_of_groups(400, 25, ALIGN_AUTO, 0.2, rule), 325); /* 13 of 16 */
    assert_int_equal(kept_of_groups(64, 32, ALIGN_AUTO, 0.9, rule), 32);   /* never none */
    assert_int_equal(kept_of_groups(64, 4, 24, 0.5, rule), 24);
    assert_int_equal(kept_of_groups(160, 10, 1, 0.2, rule), 120); /* 12.8 down, as published */
    assert_int_equal(kept_of_groups(128, 32, ALIGN_AUTO, 0.0, rule), 128);
    assert_int_equal(kept_of_groups(128, 32, ALIGN_AUTO, 0.2, &selector_fold), 128);
}

TEST(a_channel_site_may_be_given_a_fraction_of_its_own)
{
    const grail_site_sparsity own = {.site = "conv2", .sparsity = 0.7};
    budget b = {.overrides = &own, .override_count = 1, .sparsity = {[SITE_STREAM] = 0.5}};
    assert_channels_kept(&b, 12, 16); /* 12 of 24, which are few, and 12 of 40: up */
    b.align.step = 8;
    assert_channels_kept(&b, 16, 16); /* 12 lies between: up */
}

/* What is a step for any width is one for every width, and nothing larger is. */
TEST(one_step_suits_all_widths_of_a_site)
{
    static const site_kind kinds[] = {SITE_FFN, SITE_CONV};
    for (int64_t i = 0; i < 2 * 129; i++) {
        const site s = {.name = "s", .kind = kinds[i % 2], .units = 8 * (i / 2 + 1), .groups = 1};
        const int64_t any = aligned_step(&s, (alignment){.step = ALIGN_AUTO}, ANY_WIDTH);
        int64_t least = s.units;
        for (int64_t wanted = (any + 1) / 2; 2 * wanted <= s.units; wanted++) {
            const int64_t step = aligned_step(&s, (alignment){.step = ALIGN_AUTO}, wanted);
            least = step < least ? step : least;
        }
        assert_int_equal(any, least);
        assert_int_equal(aligned_step(&s, (alignment){.step = 24}, ANY_WIDTH), 24);
    }
}

TEST(a_request_that_no_site_answers_is_refused)
{
    OWNED(network) n;
    setup_images(&n, 24, 40);
    budget b = {.sparsity = {[SITE_FFN] = 0.5, [SITE_HEADS] = 0.5}};
    assert_fails(budget_apply(&b, &n.sites, &n.p), GRAIL_ERROR_ARGUMENT,
                 "no site of the requested kinds; it has conv, stream: ask for one of these");
    const grail_site_sparsity own = {.site = "conv2", .sparsity = 0.0};
    b = (budget){.overrides = &own, .override_count = 1};
    assert_ok(budget_apply(&b, &n.sites, &n.p));
}
