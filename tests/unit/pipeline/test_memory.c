/* Runs on models in memory: they give what runs on the same files give, in a directory and in
 * memory; and what cannot be meant, or goes wrong on the way, is told. */
#include "memory_lab.h"
#include "vision_lab.h"

#include <grail/onnx.h>

#include <string.h>

/* -- the same bytes ---------------------------------------------------------------------------- */

/* Compares a run on files with the same one on memory, in a directory and in memory. */
static void assert_same_all_ways(const memory_lab *m, const grail_compress_options *files,
                                 const char *ending)
{
    grail_session *session = NULL;
    grail_compression *c = NULL;
    grail_memory_model result = {0};
    grail_compress_options options = *files;
    char written[LAB_PATH];
    snprintf(written, sizeof written, "%s-%s", files->output.path, ending);
    options.output.path = written;
    assert_ok(memory_lab_run(m, options, &session, &c));
    assert_same_checkpoint(files->output.path, written);
    assert_same_checkpoint(written, files->output.path);
    grail_compression_close(c);
    grail_session_close(session);
    options.output.path = NULL;
    assert_ok(memory_lab_run(m, options, &session, &c));
    assert_ok(grail_compression_result(c, &result));
    assert_string_equal(result.name, "memory");
    assert_result_is(&result, files->output.path);
    assert_result_is(&result, written);
    grail_compression_close(c);
    grail_session_close(session);
}

static void assert_decoder_is_the_same(const lab *l, const char *golden, const char *quantize)
{
    OWNED(memory_lab) m;
    const char *output = lab_path_of(l, "%s-%s", golden, quantize == NULL ? "plain" : quantize);
    const char *model = quantize == NULL ? lab_golden(golden) : lab_f32(l, golden, "model");
    grail_compress_options options = lab_options(l, model, output);
    options.fit.refit = "auto";
    options.output.quantize = quantize;
    options.amount.sparsity_ffn = quantize == NULL ? 0.25 : 0.6;
    assert_ok(lab_compress(&options));
    memory_lab_open(&m, model);
    assert_same_all_ways(&m, &options, "held");
    memory_lab_load(&m);
    assert_same_all_ways(&m, &options, "given");
    assert_true(m.calls > m.count);
}

LAB_TEST(language_models_in_memory_give_the_same_bytes)
{
    static const char *const golden[] = {"llama3", "gpt2"};
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        assert_decoder_is_the_same(l, golden[i], NULL);
    }
}

/* With the tokenizer and the settings of generation that lie beside the demo's model. */
LAB_TEST(a_text_is_read_with_the_tokenizer_among_the_documents)
{
    OWNED(memory_lab) m;
    const char *model = lab_golden("../../../demo/model");
    const char *text = lab_golden("../../../demo/calibration.txt");
    const char *output = lab_path(l, "out");
    grail_compress_options options = lab_options(l, model, output);
    options.read.text.path = text;
    options.read.samples = 8;
    options.amount.sparsity_heads = 0.0;
    assert_ok(lab_compress(&options));
    memory_lab_open(&m, model);
    assert_same_all_ways(&m, &options, "memory");
}

LAB_TEST(rounded_ones_too)
{
    assert_decoder_is_the_same(l, "llama3", "w4a16");
}

static const char preparation[] =
    "{\"image_processor_type\": \"ViTImageProcessor\", \"do_resize\": true, \"size\": 32, "
    "\"resample\": 2, \"do_rescale\": true, \"rescale_factor\": 0.00392156862745098, "
    "\"do_normalize\": true, \"image_mean\": [0.4, 0.5, 0.6], \"image_std\": [0.2, 0.3, 0.4]}";

static void assert_is_prepared_so(const memory_lab *m)
{
    grail_preprocessing found = {0};
    OPENED(grail_model, model, grail_model_open_memory(&m->memory, NULL, &model));
    assert_ok(grail_model_preprocessing(model, &found));
    assert_string_equal(found.origin, "preprocessor_config.json");
    assert_near(found.mean[2], 0.6, 1e-12);
}

VISION_TEST(image_networks_in_memory_give_the_same_bytes)
{
    for (int f = 0; f < VISION_FAMILIES; f++) {
        if (!support_takes(f, 2)) {
            continue;
        }
        OWNED(memory_lab) m;
        const char *name = vision_family_name(f);
        const char *model = vision_network(v, (vision_family)f, name);
        const char *output = lab_path_of(&v->l, "out-%d", f);
        grail_compress_options options = vision_options(v, model, output);
        options.fit.repair = f % 2;
        vision_cut(&options, 0.3);
        if (f == VISION_HUGGING_FACE_VIT) {
            support_write_file(model, "preprocessor_config.json", preparation, strlen(preparation));
        }
        memory_lab_open(&m, model);
        if (f == VISION_HUGGING_FACE_VIT) {
            assert_is_prepared_so(&m);
        }
        assert_ok(lab_compress(&options));
        if (f % 4 == 2) {
            memory_lab_load(&m);
        }
        assert_same_all_ways(&m, &options, "memory");
    }
}

VISION_TEST(image_networks_become_the_same_onnx_file)
{
    OWNED(memory_lab) m;
    const char *model = vision_network(v, VISION_BASIC, "net");
    memory_lab_open(&m, model);
    memory_lab_load(&m);
    for (int i = 0; i < 2; i++) {
        OWNED(grail_model) *opened = NULL;
        assert_ok(i == 0 ? grail_model_open(model, &opened)
                         : grail_model_open_memory(&m.memory, NULL, &opened));
        assert_ok(
            grail_onnx_write(opened, vision_path(v, i == 0 ? "0.onnx" : "1.onnx"), NULL, NULL));
    }
    assert_same_file(&v->l, "0.onnx", "1.onnx");
}

/* -- the way round ----------------------------------------------------------------------------- */

LAB_TEST(a_result_in_memory_is_a_model_in_memory)
{
    OWNED(memory_lab) m;
    OWNED(grail_session) *session = NULL;
    OWNED(grail_compression) *c = NULL;
    grail_memory_model result = {0};
    grail_model *written = NULL;
    grail_model *kept = NULL;
    grail_comparison comparison = {0};
    const char *model = lab_golden("llama3");
    const char *output = lab_path(l, "out");
    const char *second = lab_path(l, "second");
    grail_compress_options options = lab_options(l, model, output);
    assert_ok(lab_compress(&options));
    assert_ok(grail_model_open(output, &written));
    memory_lab_open(&m, model);
    options.output.path = NULL;
    assert_ok(memory_lab_run(&m, options, &session, &c));
    assert_ok(grail_compression_result(c, &result));
    assert_ok(grail_model_open_memory(&result, NULL, &kept));
    assert_ok(grail_verify(written, kept, NULL, 0, &(grail_compute){.backend = "cpu"}, NULL, NULL,
                           &comparison));
    assert_true(comparison.max_abs == 0.0);
    grail_model_close(kept);
    grail_model_close(written);
    /* narrowed once more, from both */
    OPENED(grail_session, again, grail_session_open_memory(&result, NULL, &again));
    options.read.model = output;
    options.output.path = second;
    assert_ok(lab_compress(&options));
    options.read.session = again;
    options.output.path = NULL;
    OPENED(grail_compression, twice, grail_compression_open(&options, &twice));
    assert_ok(grail_compression_run(twice));
    assert_ok(grail_compression_result(twice, &result));
    assert_result_is(&result, second);
}
