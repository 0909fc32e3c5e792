/* The forward pass of networks of several inputs that ONNX files describe, against ONNX Runtime
 * (make_onnx_inputs_golden.py): samples with padding give what their positions without it do. */
#include "support/support.h"

#include "format/weights/safetensors.h"

#include <grail/runner.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 41 };

static void open_golden(const char *name, grail_model **m, tensor_file **golden)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tests/golden/inputs/%s.onnx", GRAIL_SOURCE_DIR, name);
    assert_ok(grail_model_open(path, m));
    snprintf(path, sizeof path, "%s/tests/golden/inputs/%s.safetensors", GRAIL_SOURCE_DIR, name);
    assert_ok(safetensors_open(path, golden));
}

static float value_at(const tensor_view *t, int64_t i)
{
    float value = 0.0F;
    memcpy(&value, (const unsigned char *)t->data + (size_t)i * sizeof value, sizeof value);
    return value;
}

/* Ids as the library wants them: a word, and WORDS more where its type is 1. */
static void read_ids(const tensor_file *golden, int64_t samples, int64_t positions, int32_t *ids,
                     int64_t *lengths)
{
    const tensor_view *words = tensor_file_find(golden, "input_ids");
    const tensor_view *mask = tensor_file_find(golden, "attention_mask");
    const tensor_view *types = tensor_file_find(golden, "token_type_ids");
    for (int64_t i = 0; i < samples * positions; i++) {
        const float type = types == NULL ? 0.0F : value_at(types, i);
        ids[i] = (int32_t)(value_at(words, i) + (float)WORDS * type);
        lengths[i / positions] += value_at(mask, i) > 0.0F ? 1 : 0;
    }
}

static void assert_states(const char *name)
{
    grail_model *m = NULL;
    tensor_file *golden = NULL;
    grail_runner *runner = NULL;
    open_golden(name, &m, &golden);
    const tensor_view *states = tensor_file_find(golden, "states");
    const int64_t samples = states->shape[0];
    const int64_t positions = states->shape[1];
    const int64_t width = states->shape[2];
    int32_t ids[64];
    int64_t lengths[8] = {0};
    float out[1024];
    assert_true(samples * positions <= 64 && samples <= 8 && samples * positions * width <= 1024);
    read_ids(golden, samples, positions, ids, lengths);
    const grail_tokens tokens = {
        .ids = ids, .windows = samples, .length = positions, .lengths = lengths};
    assert_ok(grail_runner_open(m, NULL, &runner));
    assert_int_equal(grail_runner_outputs(runner), width);
    assert_ok(grail_runner_tokens(runner, &tokens, 0, out));
    for (int64_t i = 0; i < samples * positions * width; i++) {
        if (i / width % positions < lengths[i / width / positions]) {
            assert_near((double)out[i], (double)value_at(states, i), 2e-5);
        }
    }
    grail_runner_close(runner);
    tensor_file_close(golden);
    grail_model_close(m);
}

TEST(encoders_read_ids_masks_and_types)
{
    assert_states("bert");
    assert_states("distilbert");
    assert_states("roberta");
}

TEST(an_id_that_marks_padding_is_no_part_of_a_sample)
{
    grail_model *m = NULL;
    tensor_file *golden = NULL;
    grail_runner *runner = NULL;
    float out[64];
    open_golden("roberta", &m, &golden);
    assert_ok(grail_runner_open(m, NULL, &runner));
    const grail_tokens tokens = {.ids = (const int32_t[]){5, 1, 7}, .windows = 1, .length = 3};
    assert_fails(grail_runner_tokens(runner, &tokens, 0, out), GRAIL_ERROR_ARGUMENT,
                 "sample 0 has 1 at position 1 of 'input_ids', by which the network's file knows "
                 "padding");
    grail_runner_close(runner);
    tensor_file_close(golden);
    grail_model_close(m);
}

TEST(inputs_have_names_and_sizes)
{
    grail_model *m = NULL;
    tensor_file *golden = NULL;
    grail_model_facts facts = {0};
    grail_input_facts in = {0};
    open_golden("bert", &m, &golden);
    assert_ok(grail_model_describe(m, &facts));
    assert_int_equal(facts.inputs, 3);
    assert_int_equal(facts.context, 16);
    assert_ok(grail_model_input(m, 1, &in));
    assert_string_equal(in.name, "attention_mask");
    assert_int_equal(in.rows, 0);
    assert_ok(grail_model_input(m, 2, &in));
    assert_int_equal(in.rows, 2);
    assert_fails(grail_model_input(m, 3, &in), GRAIL_ERROR_ARGUMENT, "names 3 inputs, no number 3");
    tensor_file_close(golden);
    grail_model_close(m);
}

static void assert_scores(const char *name)
{
    grail_model *m = NULL;
    tensor_file *golden = NULL;
    grail_runner *runner = NULL;
    float *pixels = NULL;
    float out[64];
    open_golden(name, &m, &golden);
    const tensor_view *given = tensor_file_find(golden, "pixels");
    const tensor_view *scores = tensor_file_find(golden, "scores");
    pixels = malloc(given->bytes);
    assert_non_null(pixels);
    memcpy(pixels, given->data, given->bytes);
    const grail_pixels images = {
        .values = pixels, .count = given->shape[0], .side = 1, .channels = given->shape[3]};
    assert_ok(grail_runner_open(m, NULL, &runner));
    assert_ok(grail_runner_pixels(runner, &images, out));
    for (int64_t i = 0; i < scores->shape[0] * scores->shape[1]; i++) {
        assert_near((double)out[i], (double)value_at(scores, i), 1e-5);
    }
    free(pixels);
    grail_runner_close(runner);
    tensor_file_close(golden);
    grail_model_close(m);
}

TEST(images_of_two_sizes_lie_side_by_side)
{
    assert_scores("siamese");
}

TEST(integers_lie_beside_images_and_signals)
{
    grail_model *m = NULL;
    tensor_file *golden = NULL;
    grail_input_facts in = {0};
    assert_scores("records");
    open_golden("records", &m, &golden);
    assert_ok(grail_model_input(m, 1, &in));
    assert_int_equal(in.is_integer, 1);
    assert_int_equal(in.channels, 5);
    assert_int_equal(in.rows, WORDS);
    assert_ok(grail_model_input(m, 2, &in));
    assert_int_equal(in.dimensions, 1);
    assert_ok(grail_model_input(m, 4, &in));
    assert_int_equal(in.channels, 7);
    assert_int_equal(in.height, 6);
    tensor_file_close(golden);
    grail_model_close(m);
}

TEST(integers_in_memory_are_whole_and_rows_of_their_table)
{
    static const float wrong[] = {0.5F, -1.0F, (float)WORDS, NAN};
    grail_model *m = NULL;
    tensor_file *golden = NULL;
    grail_runner *runner = NULL;
    float out[64];
    open_golden("records", &m, &golden);
    const tensor_view *given = tensor_file_find(golden, "pixels");
    float *pixels = malloc(given->bytes);
    assert_non_null(pixels);
    assert_ok(grail_runner_open(m, NULL, &runner));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        memcpy(pixels, given->data, given->bytes);
        pixels[3 * 8 * 8 + 2] = wrong[i]; /* the third word */
        const grail_pixels images = {
            .values = pixels, .count = given->shape[0], .side = 1, .channels = given->shape[3]};
        assert_fails(
            grail_runner_pixels(runner, &images, out),
            i == 3 ? GRAIL_ERROR_NUMERIC : GRAIL_ERROR_ARGUMENT,
            i == 3 ? "" : "at position 2, which chooses a row of 'words.weight', expected 0 to 40");
    }
    free(pixels);
    grail_runner_close(runner);
    tensor_file_close(golden);
    grail_model_close(m);
}
