/* What passes between a device and the host in a run: nothing for each batch, and little for each
 * block and pass. */
#include "lab.h"

#include "base/memory.h"
#include "base/random.h"
#include "support/counted.h"

#include <stdio.h>
#include <string.h>

enum { LENGTH = 256, VOCABULARY = 96, BATCH = 2048 / LENGTH };

/* Ids that make as many batches as that. */
static const char *write_batches(const lab *l, int64_t batches)
{
    int32_t *ids = NULL;
    random_state random;
    const char *name = lab_path_of(l, "%lld.npy", (long long)batches);
    const int64_t rows = batches * BATCH;
    random_seed(&random, 11, 0);
    assert_ok(memory_new_unset(&ids, (size_t)(rows * LENGTH), sizeof ids[0]));
    for (int64_t i = 0; i < rows * LENGTH; i++) {
        ids[i] = (int32_t)random_below(&random, VOCABULARY);
    }
    lab_write_ids(l, strrchr(name, '/') + 1, rows, LENGTH, ids);
    memory_free(ids);
    return name;
}

/* What a run of that many batches passes. */
static transfers pass(const lab *l, grail_compress_options options, int64_t batches)
{
    const transfers before = counted;
    options.read.text.path = write_batches(l, batches);
    options.read.text.context = LENGTH;
    options.read.samples = batches * BATCH;
    options.output.path = lab_path_of(l, "%s-%lld", options.run.backend, (long long)batches);
    assert_ok(lab_compress(&options));
    const transfers t = {counted.uploads - before.uploads, counted.downloads - before.downloads,
                         counted.readings - before.readings};
    print_message("%s, %lld batches: %lld up, %lld down, %lld read\n", options.run.backend,
                  (long long)batches, (long long)t.uploads, (long long)t.downloads,
                  (long long)t.readings);
    return t;
}

/* The inputs of batches come from the host: in an upload for each of the two networks. */
static void check_batches(const lab *l, grail_compress_options options)
{
    enum { FEW = 4, MANY = 8 };
    const transfers few = pass(l, options, FEW);
    const transfers many = pass(l, options, MANY);
    assert_int_equal(many.uploads - few.uploads, 2 * (MANY - FEW));
    assert_int_equal(many.downloads, few.downloads);
    assert_int_equal(many.readings, few.readings);
}

LAB_TEST(twice_the_batches_pass_nothing_more_but_their_inputs)
{
    grail_compress_options options = lab_options(l, lab_golden("llama3"), NULL);
    options.fit.token_weights = "stream";
    options.run.backend = "counted";
    check_batches(l, options);
    options.run.backend = "counted torch";
    if (counted_has_torch()) {
        check_batches(l, options);
    } else {
        print_message("skipped: PyTorch, which GRAIL_TORCH does not name\n");
    }
}

int main(void)
{
    counted_add();
    return support_run_tests();
}
