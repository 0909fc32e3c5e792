#ifndef GRAIL_GRAIL_H
#define GRAIL_GRAIL_H

/**
 * libgrail: narrow trained networks and repair them in closed form.
 *
 * Whole checkpoints: model.h, compress.h, eval.h. The numerics alone, on your own buffers:
 * statistics.h (Gram matrices), reducer.h (selections and foldings), ridge.h (the fit).
 * Every fallible call returns a grail_status; grail_error_message() says what happened. An object
 * is used by one thread at a time, different objects concurrently. Sweeps of many narrowings, and
 * the page of their results, are a library on top of this one: grail-study/sweep.h,
 * grail-study/report.h.
 *
 * The library never prints, exits or aborts, with one exception. BLIS and OpenMP end the program,
 * and oneDNN crashes, when they are refused memory or threads. What they need is asked for first,
 * and a margin of 16 MiB is left to them under ulimit -v or -d, so that too little is
 * GRAIL_ERROR_MEMORY here; but the program's own threads may take it meanwhile.
 */
#include <grail/compress.h>
#include <grail/dtype.h>
#include <grail/escape.h>
#include <grail/eval.h>
#include <grail/images.h>
#include <grail/machine.h>
#include <grail/model.h>
#include <grail/onnx.h>
#include <grail/reducer.h>
#include <grail/ridge.h>
#include <grail/statistics.h>
#include <grail/status.h>
#include <grail/text.h>

#endif
