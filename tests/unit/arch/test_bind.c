/* Parameters that are parts of a tensor, or stored transposed. The golden tests check their
 * values. */
#include "tower_lab.h"

#include "support/json_memory.h"

static const char *const heads = "head_dim=16";

TEST(parts_cover_their_tensor_to_its_end)
{
    OWNED(tower_lab) lab;
    tower_open(&lab, "timm-vit");
    tensor_view *bias = tower_tensor(&lab, "blocks.0.attn.qkv.bias");
    bias->shape[0] = 99;
    tower_refuses(
        &lab, heads, GRAIL_ERROR_SHAPE,
        "tensor 'blocks.0.attn.qkv.bias' has 99 rows, but row 96 is read by no parameter");
    bias->shape[0] = 95;
    tower_refuses(&lab, heads, GRAIL_ERROR_SHAPE,
                  "tensor 'blocks.0.attn.qkv.bias' has shape [95], but a vit network needs shape "
                  "[32] from row 64 on");
}

TEST(a_matrix_stored_by_columns_is_named_as_it_is_stored)
{
    OWNED(tower_lab) lab;
    tower_open(&lab, "open-clip");
    tower_tensor(&lab, "visual.proj")->shape[0] = 31;
    tower_refuses(
        &lab, heads, GRAIL_ERROR_SHAPE,
        "tensor 'visual.proj' has shape [31, 20], but a clip network needs shape [32, 20]");
}

TEST(totals_are_of_all_tensors)
{
    OWNED(tower_lab) lab;
    grail_model_facts tower;
    grail_model_facts whole;
    tower_open(&lab, "open-clip");
    grail_model *model = tower_model(&lab, heads);
    assert_ok(grail_model_describe(model, &tower));
    grail_model_close(model);
    tower_add(&lab, "transformer.resblocks.7.mlp.c_fc.weight", 40, 10);
    tower_add(&lab, "attn_mask", 9, 9); /* no parameter, but in the file */
    model = tower_model(&lab, heads);
    assert_ok(grail_model_describe(model, &whole));
    assert_int_equal(whole.parameters, tower.parameters + 40 * 10);
    assert_int_equal(whole.bytes, tower.bytes + 4 * (40 * 10 + 9 * 9));
    assert_int_equal(whole.macs_per_token, tower.macs_per_token); /* an image passes the tower */
    grail_model_close(model);
}

CMFixtureFunction support_setup = json_memory_use;
