/* How the outputs of two networks differ, each by itself. */
#ifndef GRAIL_CLI_OUTPUTS_H
#define GRAIL_CLI_OUTPUTS_H

#include <grail/eval.h>

#include <jansson.h>

/** Room for those of a network, of which *count is how many; NULL and 0 after a failure. free()
 * frees. */
grail_output_comparison *outputs_room(const grail_model *model, int64_t *count);

/** The name of an output, or what stands for one. */
const char *outputs_name(const char *name);

/** A line for each, and one for the worst where there are several. */
void outputs_print(int64_t count, const grail_output_comparison *of);

/** An array. The relative error of an output that is 0 in the dense network alone is null. */
json_t *outputs_json(int64_t count, const grail_output_comparison *of);

#endif
