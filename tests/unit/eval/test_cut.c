/* What a cut does without its repair: the dense network with the columns of the removed units set
 * to zero, whatever was fitted since. */
#include "unit/pipeline/lab.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The cut of the same units, whose choice does not depend on the repair. */
static void narrow(const lab *l, const char *selector, const char *compensate, const char *output)
{
    grail_compress_options options = lab_options(l, lab_golden("llama3"), output);
    options.cut.selector = selector;
    options.fit.compensate = compensate;
    assert_ok(lab_compress(&options));
}

static const char *place(const lab *l, const char *name, char *path)
{
    snprintf(path, LAB_PATH, "%s/%s", l->directory, name);
    return path;
}

static double mean_nll(const lab *l, const char *path)
{
    grail_perplexity p = {0};
    const grail_text_source text = {.path = l->calibration};
    OPENED(grail_model, model, grail_model_open(path, &model));
    assert_ok(grail_perplexity_measure(model, &text, 0, NULL, NULL, NULL, &p));
    return p.mean_nll;
}

typedef struct cut_case {
    const grail_model *dense, *narrow;
    grail_text_source text;
    grail_perplexity p;
} cut_case;

static grail_status measure_cut(void *context)
{
    cut_case *c = context;
    return grail_perplexity_of_cut(c->dense, c->narrow, &c->text, 0, NULL, NULL, NULL, &c->p);
}

static void open_case(const lab *l, const char *output, cut_case *c)
{
    grail_model *dense = NULL;
    grail_model *cut = NULL;
    assert_ok(grail_model_open(lab_golden("llama3"), &dense));
    assert_ok(grail_model_open(output, &cut));
    *c = (cut_case){.dense = dense, .narrow = cut, .text = {.path = l->calibration}};
}

static void close_case(cut_case *c)
{
    grail_model_close((grail_model *)(uintptr_t)c->dense);
    grail_model_close((grail_model *)(uintptr_t)c->narrow);
}

LAB_TEST(the_cut_of_a_repaired_network_is_the_network_without_repair)
{
    cut_case c;
    char plain[LAB_PATH];
    char repaired[LAB_PATH];
    narrow(l, "magnitude-l1", "none", place(l, "plain", plain));
    narrow(l, "magnitude-l1", "grail", place(l, "repaired", repaired));
    const double expected = mean_nll(l, plain);
    open_case(l, repaired, &c);
    assert_ok(measure_cut(&c));
    assert_near(c.p.mean_nll, expected, 1e-5);
    assert_true(fabs(mean_nll(l, repaired) - expected) > 1e-3);
    assert_true(fabs(mean_nll(l, lab_golden("llama3")) - expected) > 1e-3);
    close_case(&c);
}

LAB_TEST(what_was_folded_or_not_narrowed_by_grail_has_no_plain_cut)
{
    cut_case c;
    char folded[LAB_PATH];
    narrow(l, "fold", "grail", place(l, "folded", folded));
    open_case(l, folded, &c);
    assert_fails(measure_cut(&c), GRAIL_ERROR_UNSUPPORTED, "units were folded into others");
    close_case(&c);
    open_case(l, lab_golden("llama3"), &c);
    assert_fails(measure_cut(&c), GRAIL_ERROR_UNSUPPORTED, "there is no report.json");
    close_case(&c);
}

LAB_TEST(every_failing_allocation_is_survived)
{
    cut_case c;
    char plain[LAB_PATH];
    narrow(l, "magnitude-l1", "none", place(l, "plain", plain));
    open_case(l, plain, &c);
    const int64_t before = memory_in_use();
    support_fail_each_allocation(measure_cut, &c);
    assert_int_equal(memory_in_use(), before);
    close_case(&c);
}
