/* The dense target brings the sum behind a block back to what the dense network had. */
#include "vision_lab.h"

static double squared_distance(const vision_lab *v, const char *a, const char *b, const char *name,
                               int behind)
{
    double sum = 0.0;
    vision_values left = vision_tap(v, a, name, behind);
    vision_values right = vision_tap(v, b, name, behind);
    assert_int_equal(left.rows * left.width, right.rows * right.width);
    for (int64_t i = 0; i < left.rows * left.width; i++) {
        sum += (left.data[i] - right.data[i]) * (left.data[i] - right.data[i]);
    }
    memory_free(left.data);
    memory_free(right.data);
    return sum;
}

/* Two runs that differ in the target alone; every sum on the residual stream. */
static void assert_sums_are_nearer(vision_family family, const char *const *names, int count,
                                   int behind)
{
    if (!support_takes(family, VISION_TIMM_VIT)) { /* the first family and the tower */
        return;
    }
    vision_lab v;
    static const char *const targets[] = {"local", "dense"};
    vision_open(&v);
    const char *model = vision_network(&v, family, "model");
    for (int t = 0; t < 2; t++) {
        grail_compress_options options = vision_options(&v, model, vision_path(&v, targets[t]));
        options.amount.sparsity_conv = 0.5;
        options.amount.sparsity_ffn = 0.5;
        options.fit.target = targets[t];
        options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-5};
        assert_ok(lab_compress(&options));
    }
    for (int i = 0; i < count; i++) {
        const double local =
            squared_distance(&v, model, vision_path(&v, "local"), names[i], behind);
        const double dense =
            squared_distance(&v, model, vision_path(&v, "dense"), names[i], behind);
        /* the first block has no drift yet: the same problem */
        assert_true(i == 0 ? dense <= 1.001 * local : dense < 0.99 * local);
    }
    vision_close(&v);
}

TEST(the_dense_target_brings_the_sum_behind_a_block_nearer_to_the_dense_one)
{
    static const char *const basic[] = {"layer1.0.conv2.weight", "layer1.1.conv2.weight",
                                        "layer2.0.conv2.weight"};
    static const char *const bottleneck[] = {"layer1.0.conv3.weight", "layer1.1.conv3.weight",
                                             "layer2.0.conv3.weight"};
    static const char *const tower[] = {"blocks.0.mlp.fc2.weight", "blocks.1.mlp.fc2.weight"};
    assert_sums_are_nearer(VISION_BASIC, basic, 3, 2);
    assert_sums_are_nearer(VISION_PADDED, basic, 3, 2);
    assert_sums_are_nearer(VISION_BOTTLENECK, bottleneck, 3, 2);
    assert_sums_are_nearer(VISION_PRE_ACTIVATION, basic, 3, 1);
    assert_sums_are_nearer(VISION_TIMM_VIT, tower, 2, 1);
}
