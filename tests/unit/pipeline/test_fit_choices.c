/* Choices of the fit in complete runs on the small decoders. */
#include "lab.h"

enum { LAYERS = 2 };

static const char *run(const lab *l, grail_compress_options options, const char *name)
{
    options.output.path = lab_path(l, name);
    assert_ok(lab_compress(&options));
    return options.output.path;
}

LAB_TEST(the_choices_that_were_left_open_are_those_of_the_preset)
{
    static const char *const presets[] = {"grail", "full"};
    for (int i = 0; i < 2; i++) {
        grail_compress_options options = lab_options(l, lab_golden("llama3"), NULL);
        options.fit.compensate = presets[i];
        const char *open = run(l, options, i == 0 ? "open-grail" : "open-full");
        options.fit.ridge_scale = "mean";
        options.fit.token_weights = "none";
        assert_same_checkpoint(open, run(l, options, presets[i]));
    }
}

/* Rows of up_proj times c_j and columns of down_proj by c_j: the same network, since powers of two
 * round nothing. */
static const char *scale_neurons(const lab *l, const char *dense)
{
    static const float scale[5] = {1.0F, 16.0F, 0.25F, 2.0F, 0.0625F};
    OWNED(lab_model) m;
    const char *path = lab_path(l, "scaled");
    lab_read(&m, dense);
    for (int layer = 0; layer < LAYERS; layer++) {
        lab_tensor *up = lab_find(&m, layer, "mlp.up_proj.weight");
        lab_tensor *down = lab_find(&m, layer, "mlp.down_proj.weight");
        for (int64_t i = 0; i < lab_elements(up); i++) {
            up->values[i] *= scale[i / up->shape[1] % 5];
        }
        for (int64_t i = 0; i < lab_elements(down); i++) {
            down->values[i] /= scale[i % down->shape[1] % 5];
        }
    }
    lab_write(&m, path, GRAIL_DTYPE_F32);
    return path;
}

LAB_TEST(by_the_diagonal_the_scale_of_neurons_does_not_matter)
{
    static const char *const scales[] = {"diagonal", "mean"};
    double difference[2];
    const char *dense = lab_f32(l, "llama3", "dense");
    const char *scaled = scale_neurons(l, dense);
    assert_true(compare_models(dense, scaled, "cpu").max_abs < 1e-6);
    for (int i = 0; i < 2; i++) {
        grail_compress_options options = lab_options(l, dense, NULL);
        options.amount.sparsity_ffn = 0.5;
        options.fit.ridge_scale = scales[i];
        options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 0.1};
        const char *first = run(l, options, i == 0 ? "diagonal" : "mean");
        options.read.model = scaled;
        const char *second = run(l, options, i == 0 ? "scaled-diagonal" : "scaled-mean");
        difference[i] = compare_models(first, second, "cpu").max_abs;
    }
    assert_true(difference[0] < 1e-5);
    assert_true(difference[1] > 1e-3);
}
