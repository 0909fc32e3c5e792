/* Whole runs on a backend whose memory no host code can touch: decoders, residual networks and
 * vision transformers give the same bytes as on cpu, whose kernels it uses. */
#include "vision_lab.h"

#include "base/file.h"
#include "support/guarded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What report.json says of operations that were done on the host; released by the caller. */
static json_t *read_report(const char *directory)
{
    char path[LAB_PATH];
    json_t *report = NULL;
    snprintf(path, sizeof path, "%s/report.json", directory);
    assert_ok(json_read_file(path, 1 << 20, &report));
    return report;
}

static void assert_same_run(grail_compress_options *options, const char *host, const char *guarded)
{
    options->output.path = host;
    options->run.backend = "cpu";
    assert_ok(lab_compress(options));
    options->output.path = guarded;
    options->run.backend = "guarded";
    assert_ok(lab_compress(options));
    assert_same_checkpoint(host, guarded);
    OWNED(json_t) *report = read_report(host);
    assert_null(json_object_get(report, "host_operations"));
}

LAB_TEST(decoders_are_compressed_without_a_touch)
{
    static const char *const golden[] = {"llama3", "qwen3", "mistral"};
    static const char *const selectors[] = {"wanda", "fold", "magnitude-l2"};
    for (int f = 0; f < 3; f++) {
        for (int way = 0; way < 3; way++) {
            const char *host = lab_path_of(l, "%d-%d", f, way);
            const char *guarded = lab_path_of(l, "%d-%d-guarded", f, way);
            grail_compress_options options = lab_options(l, lab_golden(golden[f]), host);
            options.cut.selector = way == 1 ? "wanda" : selectors[(f + way) % 3];
            options.fit.open_loop = way == 1; /* cannot fold heads */
            options.fit.compensate = way == 2 ? "grail" : "full";
            options.run.memory = way == 2 ? 1 : 0;
            options.fit.token_weights = way == 0 ? "stream" : "none";
            options.fit.ridge_scale = way == 0 ? "diagonal" : "mean";
            assert_same_run(&options, host, guarded);
        }
    }
}

/* Every family of networks that read images, cut in all its kinds of sites. */
TEST(image_networks_are_compressed_without_a_touch)
{
    static const char *const selectors[] = {"wanda", "fold", "magnitude-l1"};
    vision_lab v;
    for (int f = 0; f < VISION_FAMILIES; f++) {
        vision_open(&v);
        const char *model = vision_network(&v, (vision_family)f, "model");
        for (int way = 0; way < 2; way++) {
            const char *host = lab_path_of(&v.l, "%d", way);
            const char *guarded = lab_path_of(&v.l, "%d-guarded", way);
            grail_compress_options options = vision_options(&v, model, host);
            vision_cut(&options, 0.4);
            options.cut.selector = selectors[(f + way) % 3];
            options.fit.conv_fit = way == 0 ? "kernel" : "channel";
            options.fit.open_loop = way == 1;
            options.fit.repair = 1;
            options.read.samples = 16;
            assert_same_run(&options, host, guarded);
        }
        vision_close(&v);
    }
}

VISION_TEST(what_is_left_to_the_host_is_in_the_report)
{
    const char *model = vision_network(v, VISION_TIMM_VIT, "model");
    grail_compress_options options = vision_options(v, model, vision_path(v, "narrow"));
    vision_cut(&options, 0.4);
    options.read.samples = 16;
    options.run.backend = "guarded";
    assert_ok(lab_compress(&options));
    OWNED(json_t) *report = read_report(options.output.path);
    const json_t *counts = json_object_get(report, "host_operations");
    assert_true(json_integer_value(json_object_get(counts, "layer_norm")) > 0);
    assert_null(json_object_get(counts, "linear"));
}

/* Writes a decoder whose tensor of that name has one large element in block 1. */
static const char *write_overflowing(lab *l, int number, const char *name)
{
    OWNED(lab_model) m;
    const char *path = lab_path_of(l, "model-%d", number);
    lab_read(&m, lab_golden("llama3"));
    lab_find(&m, 1, name)->values[3] = 3e38F;
    lab_write(&m, path, GRAIL_DTYPE_F32);
    return path;
}

/* The message of a run that fails, and that nothing was written. */
static void run_overflows(grail_compress_options *options, char *text, size_t size)
{
    assert_int_equal(lab_compress(options), GRAIL_ERROR_NUMERIC);
    snprintf(text, size, "%s", grail_error_message());
    assert_false(file_exists(options->output.path));
}

/* A device is read once a pass, behind what came of the fault. */
LAB_TEST(a_fault_is_named_as_on_the_host_though_it_is_read_later)
{
    static const char *const names[] = {"mlp.gate_proj.weight", "self_attn.v_proj.weight"};
    static const char *const devices[] = {"guarded", "torch:cpu"};
    for (int i = 0; i < 4; i++) {
        char host[2048];
        char device[2048];
        const char *model = write_overflowing(l, i, names[i % 2]);
        grail_compress_options options = lab_options(l, model, lab_path(l, "out"));
        options.fit.open_loop = i / 2;
        options.run.backend = "cpu";
        run_overflows(&options, host, sizeof host);
        assert_non_null(strstr(host, names[i % 2]));
        for (int d = 0; d < 2; d++) {
            options.run.backend = devices[d];
            if (d == 0 || getenv("GRAIL_TORCH") != NULL) {
                run_overflows(&options, device, sizeof device);
                assert_string_equal(device, host);
            }
        }
    }
}

int main(void)
{
    guarded_add();
    return support_run_tests();
}
