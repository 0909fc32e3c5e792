/* How many samples are taken where nobody says it. */
#include "lab.h"

#include "arch/model.h"
#include "graph/operators.h"
#include "pipeline/request/usual_samples.h"

static int64_t usual(const char *golden, int64_t length)
{
    OPENED(grail_model, model, grail_model_open(lab_golden(golden), &model));
    return usual_samples(model->graph, length);
}

/* llama3 has 80 neurons and a hidden width of 64: 64 * 80 = 5120 tokens. */
TEST(wide_networks_get_tokens_for_each_feature)
{
    assert_int_equal(usual("llama3", 1), 5120);
    assert_int_equal(usual("llama3", 3), 1707);
    assert_int_equal(usual("llama3", 39), 132);
    assert_int_equal(usual("llama3", 40), 128);
    assert_int_equal(usual("llama3", 2048), 128);
}

/* olmoe has a hidden width of 48 and 5 experts, of which 2 read a token: 64 * 48 tokens for what
 * all tokens reach, 16 * 48 * 5 / 2 for the experts. Where they read 1 of 5, these ask for more. */
TEST(experts_get_tokens_by_what_reaches_them)
{
    OPENED(grail_model, model, grail_model_open(lab_golden("olmoe"), &model));
    assert_int_equal(usual_samples(model->graph, 1), 3072);
    for (int i = 0; i < model->graph->node_count; i++) {
        if (node_is_route(&model->graph->nodes[i])) {
            model->graph->nodes[i].route.chosen = 1;
        }
    }
    assert_int_equal(usual_samples(model->graph, 1), 3840);
}

LAB_TEST(the_rule_decides_what_a_run_reads)
{
    int32_t ids[LAB_SAMPLES * LAB_LENGTH];
    for (int i = 0; i < LAB_SAMPLES * LAB_LENGTH; i++) {
        ids[i] = (i * 7) % 50;
    }
    lab_write_ids(l, "short.npy", LAB_SAMPLES * LAB_LENGTH / 2, 2, ids);
    grail_compress_options options = lab_options(l, lab_golden("llama3"), lab_path(l, "out"));
    options.read.text.path = lab_path(l, "short.npy");
    options.read.text.context = 0;
    options.read.samples = 0;
    assert_ok(lab_compress(&options));
    OWNED(json_t) *report = read_json(options.output.path, "report.json");
    const json_t *calibration = json_object_get(report, "calibration");
    /* 2560 windows of two tokens are wanted, and there are 256. */
    assert_int_equal(json_integer_value(json_object_get(calibration, "samples")), 256);
}
