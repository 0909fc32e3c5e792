/* Image networks with parts that no known family has: the refusal names the part. */
#include "network_fixture.h"
#include "support/json_memory.h"

#include <stdio.h>
#include <string.h>

static void add(network_fixture *f, const char *name, int rank, int64_t a, int64_t b, int64_t c)
{
    lab_network_add(&f->n, name, rank, (const int64_t[]){a, b, c, c});
}

TEST(parts_are_told_by_their_names)
{
    static const struct {
        const char *tensor, *text;
    } cases[] = {{"layer1.0.se.fc1.weight",
                  "tensor 'layer1.0.se.fc1.weight' belongs to channel attention "
                  "such as squeeze-excitation"},
                 {"blocks.0.0.se.conv_reduce.weight", "squeeze-excitation"},
                 {"blocks.0.ls1.gamma", "is a layer scale"},
                 {"features.1.0.layer_scale", "is a layer scale"},
                 {"reg_token", "tensor 'reg_token' holds register tokens"},
                 {"embeddings.register_tokens", "holds register tokens"},
                 {"dist_token", "belongs to a distillation token"},
                 {"head_dist.weight", "belongs to a distillation token"},
                 {"layers.0.blocks.0.attn.relative_position_bias_table", "relative positions"},
                 {"visual.attnpool.q_proj.weight", "attention that pools the output"},
                 {"features.denseblock1.denselayer1.conv1.weight", "concatenates channels"},
                 {"features.0.weight", "chain of convolutions without residual sums"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const lab_resnet r = lab_akamaster(1);
        OWNED(network_fixture) *f = network_setup(&r);
        add(f, cases[i].tensor, 1, 16, 1, 1);
        assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED, cases[i].text);
        assert_non_null(strstr(grail_error_message(), f->directory));
        assert_non_null(strstr(grail_error_message(), "plain residual networks (resnet)"));
    }
}

TEST(a_part_that_shares_letters_is_another)
{
    const lab_resnet r = lab_akamaster(1);
    OWNED(network_fixture) *f = network_setup(&r);
    add(f, "layer1.0.sel.weight", 1, 16, 1, 1);
    assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED,
                 "tensor 'layer1.0.sel.weight' is not part of the resnet network");
}

TEST(depthwise_convolutions_are_told_by_their_shapes)
{
    const lab_resnet r = lab_akamaster(1);
    OWNED(network_fixture) *f = network_setup(&r);
    add(f, "body.0.weight", 4, 16, 1, 3);
    assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED, "'body.0.weight' is not part of");
    add(f, "body.1.weight", 4, 16, 1, 3);
    assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED,
                 "tensor 'body.0.weight' is a depthwise convolution");
}

TEST(grouped_convolutions_are_told_by_their_shapes)
{
    static const char *const names[][3] = {
        {"s1.b1.conv1.conv.weight", "s1.b1.conv2.conv.weight", "s1.b1.conv3.conv.weight"},
        {"trunk.b1.f.a.0.weight", "trunk.b1.f.b.0.weight", "trunk.b1.f.c.weight"}};
    for (int i = 0; i < 2; i++) {
        const lab_resnet r = lab_akamaster(1);
        OWNED(network_fixture) *f = network_setup(&r);
        char text[96];
        add(f, names[i][0], 4, 32, 16, 1);
        add(f, names[i][1], 4, 32, 8, 3);
        assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED, "is not part of");
        add(f, names[i][2], 4, 64, 32, 1);
        snprintf(text, sizeof text, "tensor '%s' reads 8 of 32 channels: it is a grouped",
                 names[i][1]);
        assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED, text);
    }
}

/* A projection writes as many channels as the convolution beside it, which reads half of them. */
TEST(a_damaged_plain_network_is_not_called_grouped)
{
    const lab_resnet networks[] = {lab_resnet18(), lab_resnet50(), lab_narrowed_resnet50()};
    for (int i = 0; i < 3; i++) {
        OWNED(network_fixture) *f = network_setup(&networks[i]);
        lab_network_remove(&f->n, "fc.weight");
        assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED,
                     "the nearest is resnet, but its tensor 'fc.weight' is missing");
    }
}

/* The last convolution of such a stem reads half of the channels that it writes. */
TEST(a_stem_of_several_convolutions_is_not_called_grouped)
{
    const lab_resnet r = lab_resnet50();
    OWNED(network_fixture) *f = network_setup(&r);
    lab_network_remove(&f->n, "conv1.weight");
    add(f, "conv1.0.weight", 4, 24, 3, 3);
    add(f, "conv1.3.weight", 4, 32, 24, 3);
    add(f, "conv1.6.weight", 4, 64, 32, 3);
    assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED,
                 "a stem of several convolutions ('conv1.0.weight') is not supported");
}

TEST(norms_without_statistics_are_named)
{
    const lab_resnet r = lab_resnet18();
    OWNED(network_fixture) *f = network_setup(&r);
    lab_network kept = {.count = 0};
    for (int i = 0; i < f->n.count; i++) {
        if (strstr(f->n.tensors[i].name, "running_") == NULL) {
            kept.tensors[kept.count++] = f->n.tensors[i];
        }
    }
    f->n = kept;
    assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED,
                 "tensor 'bn1.weight' is of a norm without running statistics (not BatchNorm)");
}

TEST(a_language_model_is_no_image_network)
{
    const lab_resnet r = lab_akamaster(1);
    OWNED(network_fixture) *f = network_setup(&r);
    f->n.count = 0;
    add(f, "model.layers.0.self_attn.q_norm.weight", 1, 16, 1, 1);
    assert_fails(network_try(f), GRAIL_ERROR_UNSUPPORTED,
                 "fit no known family; these families are recognised by their tensors: resnet, "
                 "vit, clip; all others need a config.json");
}

CMFixtureFunction support_setup = json_memory_use;
