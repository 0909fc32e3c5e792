#ifndef GRAIL_GRAIL_H
#define GRAIL_GRAIL_H

/**
 * libgrail: narrow trained networks and repair them in closed form.
 *
 * For checkpoints: model.h, compress.h, eval.h. For the numerics alone, on your own buffers:
 * statistics.h (Gram matrices), select.h (which units stay), reducer.h (selections and foldings),
 * ridge.h (the fit).
 * Every fallible call returns a grail_status; grail_error_message() says what happened. Only one
 * thread may use an object at a time; different threads may use different objects at once.
 *
 * The library never prints, exits or aborts, with one exception. When they are refused memory or
 * threads, BLIS and OpenMP end the program, and oneDNN crashes. So the library asks for what they
 * need first, and leaves them a margin of 16 MiB under ulimit -v or -d; too little memory is then
 * GRAIL_ERROR_MEMORY. But other threads of the program may take the margin meanwhile.
 */
#include <grail/comm.h>
#include <grail/compress.h>
#include <grail/dtype.h>
#include <grail/escape.h>
#include <grail/eval.h>
#include <grail/generate.h>
#include <grail/gguf.h>
#include <grail/gram.h>
#include <grail/images.h>
#include <grail/machine.h>
#include <grail/memory.h>
#include <grail/model.h>
#include <grail/names.h>
#include <grail/onnx.h>
#include <grail/options.h>
#include <grail/plan.h>
#include <grail/quantize.h>
#include <grail/reducer.h>
#include <grail/ridge.h>
#include <grail/runner.h>
#include <grail/schedule.h>
#include <grail/select.h>
#include <grail/statistics.h>
#include <grail/status.h>
#include <grail/text.h>
#include <grail/version.h>

#endif
