/* Healed runs of decoders that stop at any place: they go on to the same bytes. */
#include "heal_lab.h"

#include "support/json_memory.h"

LAB_TEST(a_run_that_stopped_heals_on_to_the_same_bytes)
{
    /* the sites and the end of each block, and the start, some steps and the end of each training
     */
    assert_heals_on(heal_brief(l, lab_golden("llama3-bf16"), lab_path(l, "bf16"), "block,model"),
                    20);
    assert_heals_on(heal_brief(l, lab_golden("llama3-sharded"), lab_path(l, "sharded"), "model"),
                    10);
    assert_heals_on(heal_brief(l, lab_f32(l, "qwen2", "dense"), lab_path(l, "f32"), "block"), 14);
    assert_heals_on(heal_brief(l, lab_golden("llama-mha"), lab_path(l, "tied"), "model"), 10);
}

LAB_TEST(so_does_one_whose_blocks_are_finished_at_once)
{
    grail_compress_options options =
        heal_brief(l, lab_golden("llama3-bf16"), lab_path(l, "out"), "block,model");
    options.fit.open_loop = 1;
    assert_heals_on(options, 20);
}

LAB_TEST(so_do_foldings_and_dropped_sublayers)
{
    grail_compress_options options =
        heal_brief(l, lab_golden("llama3"), lab_path(l, "fold"), "block,model");
    options.cut.selector = "fold";
    assert_heals_on(options, 20);
    options = heal_brief(l, lab_golden("llama3-sharded"), lab_path(l, "drop"), "block,model");
    options.fit.refit = "all";
    options.amount.plan_text = "{\"grail_plan\": 1, \"sites\": [{\"site\": "
                               "\"model.layers.0.mlp.down_proj\", \"kept\": 20},"
                               " {\"site\": \"model.layers.1.self_attn.o_proj\", \"kept\": 0},"
                               " {\"site\": \"model.layers.1.mlp.down_proj\", \"kept\": 20}]}";
    assert_heals_on(options, 16);
}

LAB_TEST(so_does_a_network_narrowed_earlier)
{
    const char *model = lab_f32(l, "llama3", "dense");
    grail_compress_options options = heal_run_options(l, model, lab_path(l, "narrow"), "none");
    assert_ok(lab_compress(&options));
    options = heal_taught(l, lab_path(l, "narrow"), model, lab_path(l, "out"), "block,model");
    options.read.samples = 6;
    heal_briefly(&options, "block,model");
    assert_heals_on(options, 16);
}

CMFixtureFunction support_setup = json_memory_use;
