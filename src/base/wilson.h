/* The interval of a share that was counted. */
#ifndef GRAIL_BASE_WILSON_H
#define GRAIL_BASE_WILSON_H

/** Quantile of the normal distribution at 0.975: what a 95 % interval reaches to both sides. */
#define NORMAL_975 1.959963984540054

/** 95 % interval of a share, `hits` of `count` > 0. Source: Wilson 1927. */
void wilson_interval(double hits, double count, double *low, double *high);

#endif
