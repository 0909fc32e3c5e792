#ifndef GRAIL_GRAIL_H
#define GRAIL_GRAIL_H

/**
 * libgrail: narrow trained networks and repair them in closed form.
 *
 * For complete checkpoints use model.h, compress.h and eval.h. For the numerics alone, on your own
 * buffers, use statistics.h (Gram matrices), reducer.h (selections and foldings) and ridge.h (the
 * fit).
 * Every fallible call returns a grail_status; grail_error_message() says what happened. Only one
 * thread may use an object at a time; several threads may use different objects at once. The
 * library never prints, exits or aborts. libgrail-study, a library on top of this one, runs sweeps
 * of many narrowings and writes the report of their results: grail-study/sweep.h,
 * grail-study/report.h.
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
