/* Runs whose results are rounded to groups of integers and to blocks of a GGUF file: stopped and
 * continued, without memory, and what cannot be meant. */
#include "lab.h"

#include "base/file.h"
#include "support/json_memory.h"

#include <stdio.h>
#include <string.h>

static const char *const types[] = {"w4a16", "q4_0"};

enum { TYPES = sizeof types / sizeof types[0], WORDS = 94, SIZE = 4096 };

/* A byte-level vocabulary of as many ids as the golden decoders have. */
static void write_tokenizer(const char *directory)
{
    char text[SIZE] = "{\"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\": {";
    size_t used = strlen(text);
    for (int i = 0; i < WORDS; i++) {
        const char c = (char)(33 + i);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%s%c\": %d",
                                 i == 0 ? "" : ", ", c == '"' || c == '\\' ? "\\" : "", c, i);
    }
    snprintf(text + used, sizeof text - used,
             "}}, \"added_tokens\": [{\"id\": 94, \"content\": \"<|end|>\", \"special\": true}, "
             "{\"id\": 95, \"content\": \"<x>\", \"special\": false}], \"pre_tokenizer\": "
             "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true}}");
    support_write_file(directory, "tokenizer.json", text, strlen(text));
}

/* With a head of its own, and scaled rotary positions. */
static const char *open_model(lab *l, char model[LAB_PATH])
{
    lab_open(l);
    snprintf(model, LAB_PATH, "%s", lab_f32(l, "llama3", "model"));
    write_tokenizer(model);
    return model;
}

/* Widths that groups and blocks of 32 fill: of 80 neurons 32 stay, of 8 heads of 8 features 4. */
static grail_compress_options rounded_options(const lab *l, const char *model, const char *type,
                                              const char *output)
{
    grail_compress_options options = lab_options(l, model, output);
    options.amount.sparsity_ffn = 0.6;
    options.amount.sparsity_heads = 0.5;
    options.fit.refit = "auto";
    options.output.quantize = type;
    return options;
}

static const char *weights_of(const char *type)
{
    return strcmp(type, "q4_0") == 0 ? "model.gguf" : "model.safetensors";
}

static void assert_same_weights(const char *left, const char *right, const char *type)
{
    file_map maps[2] = {{0}};
    const char *const outputs[] = {left, right};
    for (int i = 0; i < 2; i++) {
        char name[LAB_PATH];
        snprintf(name, sizeof name, "%s/%s", outputs[i], weights_of(type));
        assert_ok(file_map_open(&maps[i], name));
    }
    assert_int_equal(maps[0].size, maps[1].size);
    assert_memory_equal(maps[0].data, maps[1].data, maps[0].size);
    file_map_close(&maps[0]);
    file_map_close(&maps[1]);
}

/* -- stopped and continued --------------------------------------------------------------------- */

static int stop_at(void *user, const grail_site_report *site, int block, int blocks, double left)
{
    int *calls = user;
    return --*calls == 0;
}

TEST(a_rounded_run_continues_to_the_same_bytes)
{
    OWNED(lab) l;
    char model[LAB_PATH];
    open_model(&l, model);
    const char *whole = lab_path(&l, "whole");
    const char *out = lab_path(&l, "out");
    for (int t = 0; t < TYPES; t++) {
        grail_compress_options options = rounded_options(&l, model, types[t], whole);
        int stops = 0;
        assert_ok(lab_compress(&options));
        options.output.path = out;
        options.run.observer = stop_at;
        for (grail_status status = GRAIL_ERROR_CANCELLED; status != GRAIL_OK; stops++) {
            int calls = stops + 1;
            options.run.observer_user = &calls;
            options.output.resume = 0;
            status = lab_compress(&options);
            calls = 0;
            options.output.resume = 1;
            if (status != GRAIL_OK) {
                assert_int_equal(status, GRAIL_ERROR_CANCELLED);
                assert_ok(lab_compress(&options));
            }
            assert_same_weights(whole, out, types[t]);
            support_remove_tree(out);
        }
        assert_int_equal(stops, 7); /* two sites and the end of each of two blocks, and never */
        support_remove_tree(whole);
    }
}

/* -- memory ------------------------------------------------------------------------------------ */

static grail_status open_result(void *context)
{
    OWNED(grail_model) *model = NULL;
    return grail_model_open(context, &model);
}

TEST(failing_allocations_of_a_rounded_run_are_survived)
{
    OWNED(lab) l;
    char model[LAB_PATH];
    open_model(&l, model);
    for (int t = 0; t < TYPES; t++) {
        grail_status status = GRAIL_ERROR_MEMORY;
        const char *output = lab_path(&l, types[t]);
        grail_compress_options options = rounded_options(&l, model, types[t], output);
        for (int64_t n = support_walks_failures() ? 1 : -1; status != GRAIL_OK;
             n = support_next_failure(n)) {
            char partial[LAB_PATH + 16];
            snprintf(partial, sizeof partial, "%s.partial", output);
            support_remove_tree(partial);
            support_remove_tree(output);
            memory_fail_after(n);
            status = lab_compress(&options);
            memory_fail_after(-1);
            assert_true(status == GRAIL_OK || status == GRAIL_ERROR_MEMORY);
        }
        support_fail_each_allocation(open_result, (void *)(uintptr_t)output);
    }
}

/* -- what cannot be meant ---------------------------------------------------------------------- */

TEST(what_cannot_be_rounded_is_refused)
{
    OWNED(lab) l;
    char model[LAB_PATH];
    open_model(&l, model);
    grail_compress_options options = rounded_options(&l, model, "q4_0", lab_path(&l, "out.gguf"));
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT, "give a name without .gguf");
    options.output.path = lab_path(&l, "out");
    options.output.quantize = "q5_k";
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT, "did you mean");
    options.output.quantize = "q4_0";
    options.amount.sparsity_ffn = 0.5;
    assert_fails(lab_compress(&options), GRAIL_ERROR_SHAPE,
                 "reads 40 features, which blocks of 32 weights do not fill; 40 of 80 units are "
                 "kept there: keep 32 or 64");
    options.amount.sparsity_ffn = 0.6;
    options.fit.open_loop = 1;
    assert_fails(lab_compress(&options), GRAIL_ERROR_UNSUPPORTED, "an open loop observes");
    options.fit.open_loop = 0;
    options.cut.selector = "fold";
    assert_fails(lab_compress(&options), GRAIL_ERROR_UNSUPPORTED, "units are merged");
    options.read.model = lab_golden("gpt2");
    assert_fails(lab_compress(&options), GRAIL_ERROR_UNSUPPORTED, "is not written as GGUF");
    assert_false(file_exists(lab_path(&l, "out")) || file_exists(lab_path(&l, "out.partial")));
}

CMFixtureFunction support_setup = json_memory_use;
