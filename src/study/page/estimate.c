#include "study/page/estimate.h"

#include "base/wilson.h"

#include <math.h>

static const double nan_value = (double)NAN;

estimate estimate_none(void)
{
    return (estimate){nan_value, nan_value, nan_value};
}

bool estimate_is_known(const estimate *e)
{
    return !isnan(e->value);
}

bool estimate_has_interval(const estimate *e)
{
    return !isnan(e->low) && !isnan(e->high);
}

estimate estimate_of_share(double share, double count, double half)
{
    estimate e = {share, share - half, share + half};
    if (isnan(share)) {
        return estimate_none();
    }
    if (count >= 1.0) {
        wilson_interval(share * count, count, &e.low, &e.high);
    }
    if (estimate_has_interval(&e)) {
        e.low = fmax(e.low, 0.0);
        e.high = fmin(e.high, 1.0);
    }
    return e;
}

estimate estimate_of_error(double value, double error)
{
    return (estimate){value, value - NORMAL_975 * error, value + NORMAL_975 * error};
}

/* Quantile of Student's distribution at 0.975: a table, then the expansion of Cornish and Fisher.
 */
static double student_975(int freedom)
{
    static const double table[] = {12.706205, 4.302653, 3.182446, 2.776445, 2.570582,
                                   2.446912,  2.364624, 2.306004, 2.262157, 2.228139};
    const int listed = sizeof table / sizeof table[0];
    const double z = NORMAL_975;
    const double n = freedom;
    if (freedom <= listed) {
        return table[freedom - 1];
    }
    return z + (pow(z, 3) + z) / (4.0 * n) +
           (5.0 * pow(z, 5) + 16.0 * pow(z, 3) + 3.0 * z) / (96.0 * n * n) +
           (3.0 * pow(z, 7) + 19.0 * pow(z, 5) + 17.0 * pow(z, 3) - 15.0 * z) / (384.0 * n * n * n);
}

/* Half the width of the interval of the runs' mean that follows from how far they lie apart. */
static double reach_of_runs(const estimate *runs, int count, double mean)
{
    double squares = 0.0;
    for (int i = 0; i < count; i++) {
        squares += (runs[i].value - mean) * (runs[i].value - mean);
    }
    return student_975(count - 1) * sqrt(squares / (count - 1.0) / count);
}

estimate estimate_of_runs(const estimate *runs, int count)
{
    double mean = 0.0;
    double down = 0.0;
    double up = 0.0;
    if (count == 0) {
        return estimate_none();
    }
    if (count == 1) {
        return runs[0];
    }
    for (int i = 0; i < count; i++) {
        mean += runs[i].value / count;
        down += (runs[i].value - runs[i].low) / count;
        up += (runs[i].high - runs[i].value) / count;
    }
    const double apart = reach_of_runs(runs, count, mean);
    down = isnan(down) ? 0.0 : down;
    up = isnan(up) ? 0.0 : up;
    return (estimate){mean, mean - hypot(down, apart), mean + hypot(up, apart)};
}

estimate estimate_difference(const estimate *a, const estimate *b)
{
    const double value = a->value - b->value;
    return (estimate){value, value - hypot(a->value - a->low, b->high - b->value),
                      value + hypot(a->high - a->value, b->value - b->low)};
}

/* Half an outcome is added to each of the four kinds of pairs, so that pairs which all agree do not
 * make an interval of no width. */
static estimate difference_of_hits(double gained, double lost, double count)
{
    const double value = (gained - lost) / count;
    const double more = count + 2.0;
    const double centre = (gained - lost) / more;
    const double variance = (gained + lost + 1.0) / more - centre * centre;
    const double reach = NORMAL_975 * sqrt(variance / more);
    return (estimate){value, fmin(centre - reach, value), fmax(centre + reach, value)};
}

estimate estimate_of_pairs(const double *a, const double *b, int count, bool are_hits)
{
    double mean = 0.0;
    double squares = 0.0;
    double gained = 0.0;
    double lost = 0.0;
    for (int i = 0; i < count; i++) {
        mean += (a[i] - b[i]) / count;
        gained += a[i] > b[i] ? 1.0 : 0.0;
        lost += a[i] < b[i] ? 1.0 : 0.0;
    }
    if (are_hits) {
        return difference_of_hits(gained, lost, count);
    }
    if (count < 2) {
        return (estimate){mean, nan_value, nan_value};
    }
    for (int i = 0; i < count; i++) {
        squares += (a[i] - b[i] - mean) * (a[i] - b[i] - mean);
    }
    const double reach = student_975(count - 1) * sqrt(squares / (count - 1.0) / count);
    return (estimate){mean, mean - reach, mean + reach};
}

estimate estimate_scaled(const estimate *e, double factor)
{
    return (estimate){factor * e->value, factor * e->low, factor * e->high};
}

bool estimate_is_above(const estimate *a, const estimate *b)
{
    return estimate_has_interval(a) && estimate_has_interval(b) && a->low > b->high;
}
