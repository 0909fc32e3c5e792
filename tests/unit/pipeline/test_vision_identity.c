/* Networks that read images: what a run must not change, and what pruning without repair must
 * equal. */
#include "vision_sites.h"

#include "base/file.h"

static const char *const modes[] = {"none", "grail", "full"};
enum { MODES = sizeof modes / sizeof modes[0] };

VISION_TEST(a_sparsity_of_zero_changes_no_byte)
{
    for (int f = 0; f < VISION_FAMILIES; f++) {
        const char *model = vision_network(v, (vision_family)f, vision_family_name(f));
        for (int i = 0; grail_selector_at(i) != NULL; i++) {
            const char *output = lab_path_of(&v->l, "same-%d-%d", f, i);
            grail_compress_options options = vision_options(v, model, output);
            options.cut.selector = grail_selector_at(i);
            options.fit.compensate = modes[(f + i) % MODES];
            options.fit.repair = (f + i) / MODES % 2;
            options.fit.open_loop = i % 2;
            assert_ok(lab_compress(&options));
            assert_same_checkpoint(model, output);
        }
    }
}

VISION_TEST(nor_does_it_in_a_torch_file)
{
    char model[LAB_PATH];
    vision_network(v, VISION_BASIC, "safe");
    vision_write_torch(vision_path(v, "safe"), vision_path(v, "torch"));
    snprintf(model, sizeof model, "%s/model.pth", vision_path(v, "torch"));
    grail_compress_options options = vision_options(v, model, vision_path(v, "out"));
    options.fit.repair = 1;
    assert_ok(lab_compress(&options));
    assert_same_checkpoint(vision_path(v, "torch"), options.output.path);
    assert_same_checkpoint(vision_path(v, "safe"), options.output.path);
    assert_true(file_exists(vision_path(v, "out/model.pth")));
}

VISION_TEST(a_torch_file_is_narrowed_like_a_safetensors_file)
{
    char model[LAB_PATH];
    vision_network(v, VISION_BASIC, "safe");
    vision_write_torch(vision_path(v, "safe"), vision_path(v, "torch"));
    grail_compress_options options =
        vision_options(v, vision_path(v, "safe"), vision_path(v, "narrow-safe"));
    vision_cut(&options, 0.5);
    options.fit.repair = 1;
    assert_ok(lab_compress(&options));
    snprintf(model, sizeof model, "%s/model.pth", vision_path(v, "torch"));
    options.read.model = model;
    options.output.path = vision_path(v, "narrow-torch");
    assert_ok(lab_compress(&options));
    assert_same_checkpoint(vision_path(v, "narrow-safe"), options.output.path);
}

/* Prunes a third of everything plainly; the removed columns of the dense network set to zero must
 * give the same outputs. */
static void assert_pruning_is_zeroing(vision_family family, const char *selector)
{
    OWNED(vision_lab) v;
    vision_model m;
    vision_open(&v);
    const char *model = vision_network(&v, family, "dense");
    grail_compress_options options = vision_options(&v, model, vision_path(&v, "narrow"));
    vision_cut(&options, 0.34);
    options.cut.selector = selector;
    options.fit.compensate = "none";
    assert_ok(lab_compress(&options));
    vision_make(&m, family);
    assert_pruned_is_zeroed(&v, &m, model, options.output.path);
    vision_fini(&m);
    assert_true(vision_difference(&v, options.output.path, model) > 0.01); /* the cut shows */
}

TEST(pruning_without_repair_equals_zeroing_the_consumers_columns)
{
    for (int f = 0; f < VISION_FAMILIES; f++) {
        assert_pruning_is_zeroing((vision_family)f, "magnitude-l1");
        assert_pruning_is_zeroing((vision_family)f, "wanda");
        assert_pruning_is_zeroing((vision_family)f, "random");
    }
}

static void assert_shape(vision_model *m, const char *name, int rank, int64_t a, int64_t b,
                         int64_t c)
{
    const vision_tensor *t = vision_find(m, name);
    const int64_t expected[] = {a, b, c};
    assert_int_equal(t->shape.rank, rank);
    for (int d = 0; d < rank && d < 3; d++) {
        assert_int_equal(t->shape.shape[d], expected[d]);
    }
}

static void prune_half(const vision_lab *v, vision_family family, vision_model *narrow)
{
    const char *model = vision_network(v, family, "dense");
    grail_compress_options options = vision_options(v, model, vision_path(v, "narrow"));
    vision_cut(&options, 0.5);
    options.fit.compensate = "none";
    assert_ok(lab_compress(&options));
    vision_read(narrow, options.output.path);
}

VISION_TEST(streams_and_inner_channels_have_the_planned_shapes)
{
    OWNED(vision_model) m;
    prune_half(v, VISION_BASIC, &m);
    assert_shape(&m, "conv1.weight", 4, 4, 3, 3);
    assert_shape(&m, "bn1.running_var", 1, 4, 0, 0);
    assert_shape(&m, "bn1.num_batches_tracked", 0, 0, 0, 0);
    assert_shape(&m, "layer1.0.conv1.weight", 4, 3, 4, 3);
    assert_shape(&m, "layer1.1.conv2.weight", 4, 4, 3, 3);
    assert_shape(&m, "layer2.0.conv1.weight", 4, 5, 4, 3);
    assert_shape(&m, "layer2.0.downsample.0.weight", 4, 6, 4, 1);
    assert_shape(&m, "layer2.0.downsample.1.bias", 1, 6, 0, 0);
    assert_shape(&m, "fc.weight", 2, VISION_CLASSES, 6, 0);
    assert_shape(&m, "fc.bias", 1, VISION_CLASSES, 0, 0);
}

VISION_TEST(padded_streams_stay_and_inner_channels_are_cut)
{
    OWNED(vision_model) m;
    prune_half(v, VISION_PADDED, &m);
    assert_shape(&m, "conv1.weight", 4, 8, 3, 3);
    assert_shape(&m, "layer1.0.conv1.weight", 4, 3, 8, 3);
    assert_shape(&m, "layer2.0.conv2.weight", 4, 12, 5, 3);
    assert_shape(&m, "linear.weight", 2, VISION_CLASSES, 12, 0);
}

/* One of three heads is kept: rows 0..7 of each of q, k and v, one after another. */
VISION_TEST(a_fused_tensor_holds_three_narrowed_parts)
{
    enum { D = VISION_HEAD_DIM, WIDTH = 3 * D };
    OWNED(vision_model) dense;
    OWNED(vision_model) m;
    int64_t kept[3];
    const char *model = vision_network(v, VISION_TIMM_VIT, "dense");
    grail_compress_options options = vision_options(v, model, vision_path(v, "narrow"));
    options.amount.sparsity_heads = 0.6;
    options.amount.sparsity_ffn = 0.25;
    options.fit.compensate = "none";
    assert_ok(lab_compress(&options));
    vision_read(&m, options.output.path);
    vision_make(&dense, VISION_TIMM_VIT);
    for (int layer = 0; layer < 2; layer++) {
        char name[LAB_NETWORK_NAME];
        snprintf(name, sizeof name, "blocks.%d.attn.proj", layer);
        const int64_t heads = vision_kept_units(options.output.path, name, kept, 3);
        assert_int_equal(heads, 2);
        snprintf(name, sizeof name, "blocks.%d.attn.qkv.weight", layer);
        assert_shape(&m, name, 2, 3 * heads * D, WIDTH, 0);
        const float *narrow = vision_find(&m, name)->values;
        const float *wide = vision_find(&dense, name)->values;
        for (int64_t i = 0; i < 3 * heads * D * WIDTH; i++) {
            const int64_t part = i / (heads * D * WIDTH);
            const int64_t head = i / (D * WIDTH) % heads;
            const int64_t from = (part * WIDTH + kept[head] * D) * WIDTH + i % (D * WIDTH);
            assert_true(narrow[i] == wide[from]);
        }
        snprintf(name, sizeof name, "blocks.%d.attn.qkv.bias", layer);
        assert_shape(&m, name, 1, 3 * heads * D, 0, 0);
        snprintf(name, sizeof name, "blocks.%d.attn.proj.weight", layer);
        assert_shape(&m, name, 2, WIDTH, heads * D, 0);
        snprintf(name, sizeof name, "blocks.%d.mlp.fc2.weight", layer);
        assert_shape(&m, name, 2, WIDTH, 15, 0);
    }
    assert_shape(&m, "cls_token", 3, 1, 1, WIDTH);
    assert_shape(&m, "pos_embed", 3, 1, 17, WIDTH);
}

VISION_TEST(a_configuration_says_the_new_widths)
{
    OWNED(vision_model) m;
    prune_half(v, VISION_HUGGING_FACE_VIT, &m);
    json_t *config = read_json(vision_path(v, "narrow"), "config.json");
    assert_int_equal(json_integer_value(json_object_get(config, "intermediate_size")), 10);
    assert_int_equal(json_integer_value(json_object_get(config, "num_attention_heads")), 2);
    assert_int_equal(json_integer_value(json_object_get(config, "head_dim")), VISION_HEAD_DIM);
    assert_int_equal(json_integer_value(json_object_get(config, "hidden_size")), 24);
    json_decref(config);
    assert_shape(&m, "vit.encoder.layer.1.attention.attention.value.weight", 2, 16, 24, 0);
    assert_shape(&m, "vit.encoder.layer.1.attention.output.dense.weight", 2, 24, 16, 0);
}

VISION_TEST(widths_can_be_multiples)
{
    grail_compression *c = NULL;
    const char *model = vision_network(v, VISION_BASIC, "dense");
    grail_compress_options options = vision_options(v, model, vision_path(v, "narrow"));
    vision_cut(&options, 0.3);
    options.cut.align = 4;
    options.output.dry_run = 1;
    assert_ok(grail_compression_open(&options, &c));
    for (int i = 0; i < grail_compression_site_count(c); i++) {
        const grail_site_report s = grail_compression_site(c, i);
        assert_true(s.kept % 4 == 0 || s.kept == s.units);
        assert_true(s.kept > 0 && s.kept <= s.units);
    }
    grail_compression_close(c);
    options.cut.align = 8;
    assert_ok(grail_compression_open(&options, &c));
    for (int i = 0; i < grail_compression_site_count(c); i++) {
        const grail_site_report s = grail_compression_site(c, i);
        const int64_t nearest = s.units == 12 || s.units == 10 ? 8 : s.units;
        assert_int_equal(s.kept, nearest);
    }
    grail_compression_close(c);
}
