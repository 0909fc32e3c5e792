/* Any numbers as the sites, loss curves, scores and limit of a budget. Accepted widths stay below
 * the limit, are a multiple of the step or everything, and are at least what the site must keep. */
#include "fuzz.h"

#include "reduce/allocate.h"

#include <math.h>
#include <string.h>

enum { MOST_SITES = 4, MOST_UNITS = 24 };

typedef struct reader {
    const uint8_t *data;
    size_t size;
} reader;

static uint8_t next_byte(reader *r)
{
    if (r->size == 0) {
        return 0;
    }
    r->size--;
    return *r->data++;
}

/* One byte in four is the head of eight that are any number; others are small. */
static double next_number(reader *r)
{
    const uint8_t head = next_byte(r);
    double value = (double)(head >> 2);
    if (head % 4 == 0) {
        uint8_t bytes[sizeof value];
        for (size_t i = 0; i < sizeof bytes; i++) {
            bytes[i] = next_byte(r);
        }
        memcpy(&value, bytes, sizeof value);
    }
    return value;
}

typedef struct curve {
    double errors[MOST_UNITS + 1], scores[MOST_UNITS];
} curve;

static allocation_site next_site(reader *r, curve *c)
{
    allocation_site s = {.name = "site", .units = 1 + next_byte(r) % MOST_UNITS, .weight = 1.0};
    s.step = 1 + next_byte(r) % s.units;
    s.least = next_byte(r) % (s.units + 1);
    s.cost = fabs(next_number(r));
    s.cost = isfinite(s.cost) && s.cost < 1e12 ? s.cost : 1.0;
    for (int64_t k = 0; k <= s.units; k++) {
        c->errors[k] = next_number(r);
    }
    for (int64_t k = 0; k < s.units; k++) {
        c->scores[k] = next_number(r);
    }
    s.errors = c->errors;
    s.scores = c->scores;
    return s;
}

static void check(const allocation_site *sites, int count, double limit, const int64_t *kept)
{
    double cost = 0.0;
    for (int i = 0; i < count; i++) {
        const allocation_site *s = &sites[i];
        fuzz_require(kept[i] >= s->least && kept[i] >= 0 && kept[i] <= s->units);
        fuzz_require(kept[i] % s->step == 0 || kept[i] == s->units || kept[i] == s->least);
        cost += s->cost * (double)kept[i];
    }
    fuzz_require(cost <= limit * (1.0 + 1e-9));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    reader r = {data, size};
    allocation_site sites[MOST_SITES];
    curve curves[MOST_SITES];
    int64_t kept[MOST_SITES];
    const int count = 1 + next_byte(&r) % MOST_SITES;
    const double limit = next_number(&r);
    for (int i = 0; i < count; i++) {
        sites[i] = next_site(&r, &curves[i]);
    }
    if (allocate_by_errors(sites, count, limit, kept) == GRAIL_OK) {
        check(sites, count, limit, kept);
    }
    if (allocate_by_scores(sites, count, limit, kept) == GRAIL_OK) {
        check(sites, count, limit, kept);
    }
    return 0;
}
