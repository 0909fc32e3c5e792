/* Any bytes as a file of statistics. Every weight's sums of an accepted file are read: they are
 * finite, as wide as their tensor, and as many as it says. */
#include "fuzz.h"

#include "base/name_list.h"
#include "stats/network_statistics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_FEATURES = 64 };

static void stem_of(const char *tensor, const char *ending, char stem[STATISTICS_NAME_SIZE])
{
    snprintf(stem, STATISTICS_NAME_SIZE, "%.*s", (int)(strlen(tensor) - strlen(ending)), tensor);
}

static void check_vectors(const network_statistics *s, const tensor_view *t)
{
    char stem[STATISTICS_NAME_SIZE];
    double squares[MOST_FEATURES];
    double sums[MOST_FEATURES];
    double count = 0.0;
    const int64_t width = t->rank == 0 ? 1 : t->shape[t->rank - 1];
    stem_of(t->name, ".in_sum2", stem);
    if (width > MOST_FEATURES ||
        network_statistics_vectors(s, stem, width, squares, sums, &count) != GRAIL_OK) {
        return;
    }
    for (int64_t i = 0; i < width; i++) {
        fuzz_require(isfinite(squares[i]) && squares[i] >= 0.0 && isfinite(sums[i]));
    }
    fuzz_require(count >= 0.0);
}

static void check_grams(const network_statistics *s, const tensor_view *t)
{
    char stem[STATISTICS_NAME_SIZE];
    grail_statistics *fit = NULL;
    grail_statistics *held = NULL;
    const int64_t width = t->shape[1];
    stem_of(t->name, ".in_gram", stem);
    if (width > MOST_FEATURES) {
        return;
    }
    fuzz_require(grail_statistics_create(width, 0, &fit) == GRAIL_OK);
    fuzz_require(grail_statistics_create(width, 0, &held) == GRAIL_OK);
    if (network_statistics_grams(s, stem, fit, held) == GRAIL_OK) {
        fuzz_require(fit->count >= 0 && held->count >= 0);
    }
    grail_statistics_free(fit);
    grail_statistics_free(held);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    network_statistics *s = NULL;
    double energy[3];
    if (network_statistics_open_bytes("input", data, size, &s) != GRAIL_OK) {
        return 0;
    }
    for (int64_t i = 0; i < s->file->count; i++) {
        const tensor_view *t = &s->file->tensors[i];
        if (name_ends_with(t->name, ".in_sum2")) {
            check_vectors(s, t);
        } else if (name_ends_with(t->name, ".in_gram")) {
            check_grams(s, t);
        }
    }
    if (network_statistics_energy(s, 3, energy) == GRAIL_OK) {
        fuzz_require(energy[0] >= 0.0 && energy[1] >= 0.0 && energy[2] >= 0.0);
    }
    network_statistics_close(s);
    return 0;
}
