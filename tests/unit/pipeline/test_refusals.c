/* What a run refuses before it writes anything, and in which words. */
#include "lab.h"

#include "base/file.h"

#include <math.h>
#include <sys/stat.h>

typedef struct refusal {
    lab l;
    grail_compress_options options;
} refusal;

static void setup(refusal *r)
{
    lab_open(&r->l);
    r->options = lab_options(&r->l, lab_golden("llama3"), lab_path(&r->l, "out"));
}

/* Fails so, and leaves no output, nor a part of one. */
static void assert_refused(refusal *r, grail_status code, const char *text)
{
    const char *partial = lab_path(&r->l, "out.partial");
    assert_fails(lab_compress(&r->options), code, text);
    assert_false(file_exists(lab_path(&r->l, "out")));
    assert_false(file_exists(partial));
}

static void teardown(refusal *r)
{
    lab_close(&r->l);
}

#define REFUSAL_TEST(name) TEST_OF(refusal, r, setup, teardown, name)

/* Fields of the options: unit/planning/test_fields. */
REFUSAL_TEST(a_sparsity_outside_zero_to_one_is_refused)
{
    static const double bad[] = {-0.1, 1.0, 1.5, (double)NAN};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const grail_site_sparsity own = {.site = "model.layers.0.mlp.down_proj",
                                         .sparsity = bad[i]};
        r->options.amount.site_sparsities = &own;
        r->options.amount.site_sparsity_count = 1;
        assert_refused(r, GRAIL_ERROR_ARGUMENT, "outside [0, 1)");
    }
}

REFUSAL_TEST(a_site_may_not_lose_every_unit)
{
    r->options.read.model = lab_golden("llama-mqa");
    r->options.amount.sparsity_heads = 0.999999999999;
    assert_refused(r, GRAIL_ERROR_ARGUMENT,
                   "site 'model.layers.0.self_attn.o_proj' would lose all of its 1 units");
}

REFUSAL_TEST(unknown_names_are_answered_with_the_known_ones)
{
    const grail_compress_options good = r->options;
    r->options.cut.selector = "wandr";
    assert_refused(r, GRAIL_ERROR_ARGUMENT, "wanda");
    r->options = good;
    r->options.fit.compensate = "fully";
    assert_refused(r, GRAIL_ERROR_ARGUMENT,
                   "unknown compensation 'fully'; expected one of none, own, grail, full");
    r->options = good;
    r->options.run.backend = "gpu";
    assert_refused(r, GRAIL_ERROR_ARGUMENT, "cpu");
    r->options = good;
    const grail_site_sparsity own = {.site = "model.layers.9.mlp.down_proj", .sparsity = 0.5};
    r->options.amount.site_sparsities = &own;
    r->options.amount.site_sparsity_count = 1;
    assert_refused(r, GRAIL_ERROR_ARGUMENT, "'model.layers.9.mlp.down_proj' is neither a site");
}

REFUSAL_TEST(numbers_that_make_no_sense_are_refused)
{
    r->options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, -1e-3};
    assert_refused(r, GRAIL_ERROR_ARGUMENT, "alpha is -0.001, expected 0 or more");
    r->options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-3};
    r->options.cut.align = -32;
    assert_refused(r, GRAIL_ERROR_ARGUMENT, "the alignment is -32, expected 0 or more");
    r->options.cut.align = 1;
    r->options.read.text.context = 1;
    assert_refused(r, GRAIL_ERROR_ARGUMENT,
                   "a context of 1 tokens is too short; it must be at least 2");
    r->options.read.text.context = 257;
    assert_refused(r, GRAIL_ERROR_ARGUMENT,
                   "tokens is longer than the model's 256 positions; give a smaller one");
}

REFUSAL_TEST(an_output_that_exists_is_left_alone)
{
    assert_int_equal(mkdir(r->options.output.path, 0777), 0);
    assert_fails(lab_compress(&r->options), GRAIL_ERROR_EXISTS, "exists already");
}

REFUSAL_TEST(a_directory_of_somebody_else_is_left_alone)
{
    assert_int_equal(mkdir(lab_path(&r->l, "out.partial"), 0777), 0);
    support_write_file(lab_path(&r->l, "out.partial"), "notes.txt", "mine", 4);
    for (r->options.output.resume = 0; r->options.output.resume < 2; r->options.output.resume++) {
        assert_fails(lab_compress(&r->options), GRAIL_ERROR_EXISTS,
                     "does not come from an interrupted run: it holds 'notes.txt' but no record of "
                     "a run; move it away, or choose another output");
    }
    assert_true(file_exists(lab_path(&r->l, "out.partial/notes.txt")));
}

REFUSAL_TEST(an_output_inside_the_model_is_refused)
{
    char inside[LAB_PATH];
    r->options.read.model = lab_f32(&r->l, "llama3", "dense");
    snprintf(inside, sizeof inside, "%s/narrow", r->options.read.model);
    r->options.output.path = inside;
    assert_refused(r, GRAIL_ERROR_ARGUMENT, "lies inside the model");
    snprintf(inside, sizeof inside, "%s/../dense/narrow", r->options.read.model);
    assert_refused(r, GRAIL_ERROR_ARGUMENT, "lies inside the model");
}

REFUSAL_TEST(an_output_that_cannot_be_made_is_refused)
{
    r->options.output.path = "/proc/grail-out";
    assert_refused(r, GRAIL_ERROR_IO, "/proc");
    r->options.output.path = lab_path(&r->l, "no/such/out");
    assert_refused(r, GRAIL_ERROR_IO, "no/such");
    r->options.output.path = "";
    assert_refused(r, GRAIL_ERROR_ARGUMENT, "no output directory was given");
    r->options.output.path = NULL;
    assert_refused(r, GRAIL_ERROR_ARGUMENT, "no output directory was given");
}

REFUSAL_TEST(a_slash_behind_the_output_means_nothing)
{
    char output[LAB_PATH];
    snprintf(output, sizeof output, "%s//", lab_path(&r->l, "out"));
    r->options.output.path = output;
    assert_ok(lab_compress(&r->options));
    assert_true(file_is_directory(lab_path(&r->l, "out")));
    assert_fails(lab_compress(&r->options), GRAIL_ERROR_EXISTS, "exists already");
}

REFUSAL_TEST(a_model_that_is_not_there_is_named)
{
    r->options.read.model = NULL;
    assert_refused(r, GRAIL_ERROR_ARGUMENT, "no model was given");
    r->options.read.model = lab_path(&r->l, "nowhere");
    assert_refused(r, GRAIL_ERROR_IO, "nowhere");
}

REFUSAL_TEST(calibration_must_be_there_where_it_is_needed)
{
    r->options.read.text.path = NULL;
    assert_refused(r, GRAIL_ERROR_ARGUMENT, "needs calibration text");
    r->options.fit.compensate = "none"; /* wanda still looks at activations */
    assert_refused(r, GRAIL_ERROR_ARGUMENT, "selector 'wanda'");
    r->options.cut.selector = "magnitude-l2";
    assert_ok(lab_compress(&r->options));
}

REFUSAL_TEST(more_samples_than_the_text_holds_are_refused)
{
    r->options.read.samples = LAB_SAMPLES + 1;
    assert_refused(r, GRAIL_ERROR_ARGUMENT,
                   "17 samples were requested, but the text holds only 16 windows of");
}

REFUSAL_TEST(ids_outside_the_vocabulary_are_refused)
{
    lab_model m;
    lab_read(&m, lab_golden("llama3"));
    for (int i = 0; i < m.count; i++) {
        lab_tensor *t = &m.tensors[i];
        if (t->rank == 2 && t->shape[0] == 96) {
            t->shape[0] = 50;
        }
    }
    lab_set_integer(&m, "vocab_size", 50);
    r->options.read.model = lab_path(&r->l, "small");
    lab_write(&m, r->options.read.model, GRAIL_DTYPE_F32);
    lab_fini(&m);
    assert_refused(r, GRAIL_ERROR_ARGUMENT, "outside the model's vocabulary of 50");
}

REFUSAL_TEST(a_weight_that_is_not_a_number_is_named)
{
    lab_model m;
    lab_read(&m, lab_golden("llama3"));
    lab_find(&m, 1, "mlp.up_proj.weight")->values[3] = NAN;
    r->options.read.model = lab_path(&r->l, "damaged");
    lab_write(&m, r->options.read.model, GRAIL_DTYPE_F32);
    lab_fini(&m);
    assert_fails(lab_compress(&r->options), GRAIL_ERROR_NUMERIC,
                 "tensor 'model.layers.1.mlp.up_proj.weight' holds a NaN or infinity at element 3");
}

REFUSAL_TEST(a_plan_that_does_not_fit_is_refused)
{
    static const char text[] = "{\"grail_plan\": 1, \"sites\": [{\"site\": \"lm_head\"}]}";
    support_write_file(r->l.directory, "plan.json", text, sizeof text - 1);
    r->options.amount.plan = lab_path(&r->l, "plan.json");
    assert_refused(r, GRAIL_ERROR_FORMAT, "'lm_head' is not a site of this model");
}

REFUSAL_TEST(what_was_chosen_beside_a_plan_that_states_it_is_refused)
{
    grail_compression *c = NULL;
    r->options.amount.plan_text = "{\"grail_plan\": 1, \"select\": \"closed\", \"sites\": []}";
    r->options.cut.selector = "wanda";
    r->options.cut.select = "open";
    r->options.output.dry_run = 1;
    assert_ok(grail_compression_open(&r->options, &c)); /* the plan goes before the fields */
    grail_compression_close(c);
    r->options.amount.chosen = "cut.selector cut.selected stream_score";
    assert_ok(grail_compression_open(&r->options, &c));
    grail_compression_close(c);
    r->options.amount.chosen = "cut.selector cut.select";
    assert_refused(r, GRAIL_ERROR_ARGUMENT,
                   "the plan: \"select\" is stated, and a plan goes before options");
    assert_string_equal(grail_error_fields(), "cut.select");
}

REFUSAL_TEST(a_dry_run_writes_nothing_and_needs_no_data)
{
    grail_compression *c = NULL;
    r->options.output.dry_run = 1;
    r->options.read.text.path = NULL;
    assert_ok(grail_compression_open(&r->options, &c));
    assert_int_equal(grail_compression_site_count(c), 4);
    assert_int_equal(grail_compression_site(c, 0).kept, 2);
    assert_int_equal(grail_compression_site(c, 1).kept, 60);
    grail_compression_close(c);
    assert_false(file_exists(lab_path(&r->l, "out.partial")));
}
