#include "base/wilson.h"

#include <math.h>

void wilson_interval(double hits, double count, double *low, double *high)
{
    const double z = NORMAL_975;
    const double p = hits / count;
    const double scale = 1.0 / (1.0 + z * z / count);
    const double centre = scale * (p + z * z / (2.0 * count));
    const double half = scale * z * sqrt(p * (1.0 - p) / count + z * z / (4.0 * count * count));
    *low = hits <= 0.0 ? 0.0 : centre - half;
    *high = hits >= count ? 1.0 : centre + half;
}
